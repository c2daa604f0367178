#!/usr/bin/env python3
"""Records what PyTorch computes in float64, for tests/oracle/torch_test.cpp.

usage: record_torch.py FILE

Needs PyTorch 2.5 or later; no GPU. Inputs are multiples of 1/8, so that they are exact in float16, and are
stored as integers. Calls of scaled_dot_product_attention have no lse; flex_attention gives it.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

try:
    from torch.nn.attention.flex_attention import AuxRequest
except ImportError:
    AuxRequest = None


def shape(seqlen_q=6, seqlen_kv=11, batch=2, heads=2, heads_kv=None, head_dim=8, head_dim_v=None, sm_scale=None,
          **more):
    """The problem, in the words of dump/FORMAT.md; `more` is what it has beside its shape."""
    return {"batch": batch, "heads": heads, "heads_kv": heads_kv or heads, "seqlen_q": seqlen_q,
            "seqlen_kv": seqlen_kv, "head_dim": head_dim, "head_dim_v": head_dim_v or head_dim,
            "sm_scale": sm_scale or head_dim**-0.5, **more}


def eighths(sizes, seed):
    """Integers that stand for multiples of 1/8 between -1.5 and 1.5."""
    return torch.randint(-12, 13, sizes, generator=torch.Generator().manual_seed(seed))


def operands(problem):
    p = problem
    seed = p["seqlen_q"] * 1000 + p["seqlen_kv"] * 10 + p["heads"]
    return (eighths((p["batch"], p["heads"], p["seqlen_q"], p["head_dim"]), seed),
            eighths((p["batch"], p["heads_kv"], p["seqlen_kv"], p["head_dim"]), seed + 1),
            eighths((p["batch"], p["heads_kv"], p["seqlen_kv"], p["head_dim_v"]), seed + 2))


def rows_and_keys(problem):
    """Indices of q rows and keys that broadcast to [seqlen_q, seqlen_kv]."""
    return torch.arange(problem["seqlen_q"])[:, None], torch.arange(problem["seqlen_kv"])[None, :]


def listed(tensor):
    """Flat, with infinities as text, which JSON has no numbers for."""
    return [value if abs(value) != float("inf") else str(value) for value in tensor.flatten().tolist()]


def recorded(name, problem, inputs, o, lse=None, bias=None):
    q, k, v = inputs
    case = {"name": name, "problem": problem, "q_eighths": q.flatten().tolist(), "k_eighths": k.flatten().tolist(),
            "v_eighths": v.flatten().tolist(), "o": listed(o)}
    if lse is not None:
        case["lse"] = listed(lse)
    if bias is not None:
        case["bias"] = {"shape": list(bias.shape), "values": listed(bias)}
    assert o.dtype == torch.float64 and (lse is None or lse.dtype == torch.float64), name
    return case


def sdpa(name, problem, attn_mask=None, is_causal=False, bias=None):
    """One call; the oracle is told of a bias, and the problem says what a mask of bools or its like means."""
    inputs = operands(problem)
    q, k, v = (tensor.double() / 8 for tensor in inputs)
    if "sink" in problem:
        # A sink is a key that has a score of its own and no value.
        nothing = torch.zeros(problem["batch"], problem["heads_kv"], 1, 1, dtype=torch.float64)
        k = torch.cat([k, nothing.expand(-1, -1, 1, problem["head_dim"])], dim=2)
        v = torch.cat([v, nothing.expand(-1, -1, 1, problem["head_dim_v"])], dim=2)
        attn_mask = torch.zeros(1, problem["heads"], problem["seqlen_q"], problem["seqlen_kv"] + 1, dtype=torch.float64)
        attn_mask[..., -1] = torch.tensor(problem["sinks"], dtype=torch.float64)[None, :, None]
    with sdpa_kernel(SDPBackend.MATH):
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=bias if bias is not None else attn_mask,
                                           is_causal=is_causal, scale=problem["sm_scale"],
                                           enable_gqa=problem["heads"] != problem["heads_kv"])
    return recorded(name, problem, inputs, o, bias=bias)


def flex(name, problem, score_mod=None, mask_mod=None, bias=None):
    """One call without torch.compile: eager operations in float64."""
    torch._dynamo.reset()
    inputs = operands(problem)
    q, k, v = (tensor.double() / 8 for tensor in inputs)
    block_mask = None
    if mask_mod is not None:
        block_mask = create_block_mask(mask_mod, problem["batch"], problem["heads"], problem["seqlen_q"],
                                       problem["seqlen_kv"], device="cpu")
    options = {"score_mod": score_mod, "block_mask": block_mask, "scale": problem["sm_scale"],
               "enable_gqa": problem["heads"] != problem["heads_kv"]}
    if AuxRequest is not None:
        o, aux = flex_attention(q, k, v, return_aux=AuxRequest(lse=True), **options)
        return recorded(name, problem, inputs, o, aux.lse, bias)
    o, lse = flex_attention(q, k, v, return_lse=True, **options)
    return recorded(name, problem, inputs, o, lse, bias)


def sdpa_cases():
    yield sdpa("sdpa", shape())
    yield sdpa("sdpa scale", shape(sm_scale=0.3))
    yield sdpa("sdpa heads 6 on 2", shape(heads=6, heads_kv=2))
    yield sdpa("sdpa heads 3 on 1", shape(heads=3, heads_kv=1))
    yield sdpa("sdpa head_dim_v", shape(head_dim_v=16))
    top_left = {"mask": "causal", "causal_alignment": "top_left"}
    yield sdpa("sdpa is_causal", shape(9, 9, **top_left), is_causal=True)
    yield sdpa("sdpa is_causal, more keys", shape(5, 9, **top_left), is_causal=True)
    yield sdpa("sdpa is_causal, more rows", shape(9, 5, **top_left), is_causal=True)
    yield sdpa("sdpa is_causal, heads 4 on 2, head_dim_v", shape(7, 10, heads=4, heads_kv=2, head_dim_v=16, **top_left),
               is_causal=True)

    for name, seqlen_q, seqlen_kv in [("more keys", 5, 9), ("more rows", 9, 5)]:
        problem = shape(seqlen_q, seqlen_kv, mask="causal", causal_alignment="bottom_right")
        row, key = rows_and_keys(problem)
        yield sdpa(f"sdpa bool mask, causal from the end, {name}", problem,
                   attn_mask=key <= row + seqlen_kv - seqlen_q)
    problem = shape(12, 12, window_left=3, window_right=1)
    row, key = rows_and_keys(problem)
    yield sdpa("sdpa bool mask, window", problem, attn_mask=(row - key <= 3) & (key - row <= 1))

    for sizes in [(2, 2, 6, 11), (1, 2, 1, 11), (2, 1, 6, 1), (1, 1, 6, 11)]:
        yield sdpa(f"sdpa float mask {list(sizes)}", shape(), bias=eighths(sizes, 5).double() / 8)
    bias = eighths((1, 2, 6, 11), 6).double() / 8
    bias[bias > 0.75] = float("-inf")
    bias[:, 0, 2, :] = float("-inf")
    yield sdpa("sdpa float mask that hides", shape(), bias=bias)

    problem = shape(7, 7, alibi="linear", causal_alignment="top_left", alibi_slopes=[0.5, 0.25])
    row, key = rows_and_keys(problem)
    slopes = torch.tensor(problem["alibi_slopes"], dtype=torch.float64)[:, None, None]
    yield sdpa("sdpa float mask, ALiBi", problem, attn_mask=slopes * (key - row))
    yield sdpa("sdpa with a sink", shape(sink="last", sinks=[0.5, -1.25]))


def flex_score_cases():
    yield flex("flex", shape())
    yield flex("flex heads 4 on 2", shape(heads=4, heads_kv=2))
    yield flex("flex head_dim_v, scale", shape(head_dim_v=16, sm_scale=0.3))

    def soft_cap(score, b, h, row, key):
        return 1.5 * torch.tanh(score / 1.5)

    yield flex("flex soft cap", shape(logits_soft_cap=1.5), soft_cap)
    slopes = torch.tensor([[0.5, 0.25], [0.125, 1.0]], dtype=torch.float64)
    listed_slopes = slopes.flatten().tolist()

    def linear(score, b, h, row, key):
        return score + slopes[b, h] * (key - (row + 11 - 6))

    def distance(score, b, h, row, key):
        return score - slopes[b, h] * torch.abs(key - row)

    yield flex("flex ALiBi from the end", shape(alibi="linear", alibi_slopes=listed_slopes), linear)
    yield flex("flex ALiBi, distance",
               shape(alibi="distance", causal_alignment="top_left", alibi_slopes=listed_slopes), distance)
    bias = eighths((1, 2, 6, 11), 7).double() / 8

    def relative(score, b, h, row, key):
        return score + bias[0, h, row, key]

    def capped_and_biased(score, b, h, row, key):
        return 1.5 * torch.tanh(score / 1.5) + bias[0, h, row, key]

    yield flex("flex bias", shape(), relative, bias=bias)
    yield flex("flex soft cap, then bias", shape(logits_soft_cap=1.5), capped_and_biased, bias=bias)


def flex_mask_cases():
    def left_window(b, h, row, key):
        return (key <= row) & (row - key <= 4)

    yield flex("flex window", shape(12, 12, mask="causal", window_left=4), mask_mod=left_window)

    def wide_window(b, h, row, key):
        return ((row + 5 - key) <= 3) & ((key - (row + 5)) <= 2)

    yield flex("flex window from the end", shape(6, 11, window_left=3, window_right=2), mask_mod=wide_window)

    def from_the_end(b, h, row, key):
        return key <= row + 5

    def from_the_end_few_keys(b, h, row, key):
        return key <= row - 4

    yield flex("flex causal from the end, more keys", shape(6, 11, mask="causal"), mask_mod=from_the_end)
    yield flex("flex causal from the end, more rows", shape(9, 5, mask="causal"), mask_mod=from_the_end_few_keys)
    rows = torch.tensor([6, 4])
    keys = torch.tensor([7, 11])

    def lengths(b, h, row, key):
        return key < keys[b]

    def lengths_from_the_end(b, h, row, key):
        return (key < keys[b]) & (key <= row + keys[b] - rows[b])

    side = {"seqlens_q": rows.tolist(), "seqlens_kv": keys.tolist()}
    yield flex("flex lengths", shape(**side), mask_mod=lengths)
    yield flex("flex lengths, causal from the end", shape(mask="causal", **side), mask_mod=lengths_from_the_end)

    def soft_cap(score, b, h, row, key):
        return 2.0 * torch.tanh(score / 2.0)

    yield flex("flex heads 4 on 1, soft cap, window",
               shape(12, 12, heads=4, heads_kv=1, mask="causal", window_left=4, logits_soft_cap=2.0), soft_cap,
               left_window)


def main(path):
    cases = [*sdpa_cases(), *flex_score_cases(), *flex_mask_cases()]
    lines = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"producer": "PyTorch {torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{path}: {len(cases)} cases")


if __name__ == "__main__":
    main(sys.argv[1])
