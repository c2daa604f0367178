#!/usr/bin/env python3
"""Records the gradients that PyTorch computes in float64, for tests/oracle/torch_backward_test.cpp.

usage: record_torch_backward.py FILE

Needs PyTorch 2.5 or later; no GPU. Inputs and dout are multiples of 1/8, as in record_torch.py. Gradients are those
of sum(o * dout) by autograd, with respect to dequantised operands. Calls of scaled_dot_product_attention have dq, dk
and dv; those written out have p, dp, ds and delta as well, ds being the gradient of the score before the soft cap.
"""

import json
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from record_torch import eighths, listed, operands, rows_and_keys
from record_torch import shape as shape_of

INFINITY = float("inf")


def shape(seqlen_q=5, seqlen_kv=7, **more):
    """Smaller than a forward call: a backward call has more to record."""
    return shape_of(seqlen_q, seqlen_kv, **more)


class Call:
    """The inputs of one call, integers for the file and leaves for autograd, and what is recorded of it."""

    def __init__(self, name, problem, descales=None, bias=None):
        p = problem
        self.problem = problem
        self.group = p["heads"] // p["heads_kv"]
        integers = dict(zip("qkv", operands(problem)))
        integers["dout"] = eighths((p["batch"], p["heads"], p["seqlen_q"], p["head_dim_v"]), 97)
        for entry, rows in enumerate(p.get("seqlens_q", [])):
            integers["dout"][entry, :, rows:] = 0
        self.case = {"name": name, "problem": problem}
        self.case |= {f"{operand}_eighths": values.flatten().tolist() for operand, values in integers.items()}
        if bias is not None:
            self.case["bias"] = {"shape": list(bias.shape), "values": listed(bias)}
        if descales:
            self.case["descales"] = {operand: [listed(values), rows] for operand, (values, rows) in descales.items()}
        dequantised = {operand: values.double() / 8 for operand, values in integers.items()}
        for operand, (values, rows) in (descales or {}).items():
            size = dequantised[operand].shape[2]
            dequantised[operand] *= values.repeat_interleave(rows, dim=2)[:, :, :size, None]
        if p.get("dkv_per_head"):
            dequantised["k"] = dequantised["k"].repeat_interleave(self.group, dim=1)
            dequantised["v"] = dequantised["v"].repeat_interleave(self.group, dim=1)
            self.group = 1
        self.dout = dequantised.pop("dout")
        self.q, self.k, self.v = (leaf.requires_grad_() for leaf in dequantised.values())

    def recorded(self, o, scaled=None, p=None):
        if p is not None:
            scaled.retain_grad()
            p.retain_grad()
        o.backward(self.dout)
        found = {"dq": self.q.grad, "dk": self.k.grad, "dv": self.v.grad}
        if p is not None:
            found |= {"p": p, "delta": (self.dout * o).sum(dim=-1), "dp": p.grad, "ds": scaled.grad}
        for stage, tensor in found.items():
            assert tensor.dtype == torch.float64 and tensor.isfinite().all(), f"{stage} of {self.case['name']}"
            self.case[stage] = listed(tensor)
        return self.case


def sdpa(name, problem, attn_mask=None, is_causal=False, bias=None):
    """One call; the oracle is told of a bias, and the problem says what a mask of bools or its like means."""
    call = Call(name, problem, bias=bias)
    k, v = call.k, call.v
    if "sink" in problem:
        # A sink is a key that has a score of its own and no value.
        k, v = (F.pad(tensor, (0, 0, 0, 1)) for tensor in (k, v))
        attn_mask = torch.zeros(1, problem["heads"], problem["seqlen_q"], problem["seqlen_kv"] + 1, dtype=torch.float64)
        attn_mask[..., -1] = torch.tensor(problem["sinks"], dtype=torch.float64)[None, :, None]
    with sdpa_kernel(SDPBackend.MATH):
        o = F.scaled_dot_product_attention(call.q, k, v, attn_mask=bias if bias is not None else attn_mask,
                                           is_causal=is_causal, scale=problem["sm_scale"], enable_gqa=call.group > 1)
    return call.recorded(o)


def written_out(name, problem, mask=None, added=None, **more):
    """One call in plain operations: `mask` leaves keys, `added` is what comes after the soft cap."""
    call = Call(name, problem, **more)
    k, v = (tensor.repeat_interleave(call.group, dim=1) for tensor in (call.k, call.v))
    scaled = problem["sm_scale"] * (call.q @ k.transpose(2, 3))
    cap = problem.get("logits_soft_cap")
    scores = cap * torch.tanh(scaled / cap) if cap else scaled
    if added is not None:
        scores = scores + added
    left = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
    scores = scores.masked_fill(~left, -INFINITY)
    if "sink" in problem:
        sinks = torch.tensor(problem["sinks"], dtype=torch.float64)[None, :, None, None]
        scores = torch.cat([scores, sinks.expand(*scores.shape[:3], 1)], dim=-1)
    else:
        # The softmax of a row that sees nothing is NaN, and so would be its gradient.
        scores = scores.masked_fill(~left.any(dim=-1, keepdim=True), 0)
    p = scores.softmax(dim=-1)[..., :problem["seqlen_kv"]].masked_fill(~left, 0)
    return call.recorded(p @ v, scaled=scaled, p=p)


def sdpa_cases():
    yield sdpa("sdpa", shape())
    yield sdpa("sdpa scale, head_dim_v", shape(sm_scale=0.3, head_dim_v=6))
    yield sdpa("sdpa heads 4 on 2", shape(heads=4, heads_kv=2))
    yield sdpa("sdpa heads 3 on 1, head_dim_v", shape(heads=3, heads_kv=1, head_dim_v=6))
    top_left = {"mask": "causal", "causal_alignment": "top_left"}
    yield sdpa("sdpa is_causal", shape(7, 7, **top_left), is_causal=True)
    yield sdpa("sdpa is_causal, more keys", shape(5, 9, **top_left), is_causal=True)
    yield sdpa("sdpa is_causal, more rows, heads 4 on 2", shape(9, 5, heads=4, heads_kv=2, **top_left), is_causal=True)

    row, key = rows_and_keys(shape(5, 9))
    yield sdpa("sdpa bool mask, causal from the end", shape(5, 9, mask="causal"), attn_mask=key <= row + 4)
    row, key = rows_and_keys(shape(8, 8))
    yield sdpa("sdpa bool mask, window", shape(8, 8, window_left=3, window_right=1),
               attn_mask=(key >= row - 3) & (key <= row + 1))

    whole = eighths((2, 2, 5, 7), 5).double() / 8
    yield sdpa("sdpa float mask", shape(), bias=whole)
    yield sdpa("sdpa float mask, the same for entries and rows", shape(), bias=whole[:1, :, :1])
    yield sdpa("sdpa float mask that hides", shape(), bias=whole[:1].masked_fill(whole[:1] > 0.75, -INFINITY))
    row, key = rows_and_keys(shape())
    slopes = torch.tensor([0.5, 0.25], dtype=torch.float64)
    yield sdpa("sdpa float mask, ALiBi", attn_mask=slopes[:, None, None] * (key - row),
               problem=shape(alibi="linear", causal_alignment="top_left", alibi_slopes=listed(slopes)))
    yield sdpa("sdpa with a sink", shape(sink="last", sinks=[0.5, -1.25]))


def written_out_cases():
    yield written_out("plain", shape())
    yield written_out("heads 4 on 2, gradients of each query head", shape(heads=4, heads_kv=2, dkv_per_head=True))
    yield written_out("soft cap", shape(logits_soft_cap=1.5))
    bias = eighths((1, 2, 5, 7), 7).double() / 8
    yield written_out("soft cap, then bias", shape(logits_soft_cap=1.5), added=bias, bias=bias)

    slopes = torch.tensor([[0.5, 0.25], [0.125, 1.0]], dtype=torch.float64)
    problem = shape(alibi="distance", alibi_slopes=listed(slopes))
    row, key = rows_and_keys(problem)
    yield written_out("ALiBi from the end, distance", problem, added=-slopes[:, :, None, None] * (key - row - 2).abs())

    problem = shape(9, 5, mask="causal")
    row, key = rows_and_keys(problem)
    yield written_out("causal from the end, rows that see nothing", problem, mask=key <= row - 4)
    problem = shape(9, 5, mask="causal", sink="last", sinks=[0.5, -1.25])
    yield written_out("causal from the end with a sink, rows that see it alone", problem, mask=key <= row - 4)
    problem = shape(5, 9, causal_alignment="top_left", window_left=2, window_right=1, window_bounds="exclusive")
    row, key = rows_and_keys(problem)
    yield written_out("window without its bounds, keys that no row sees", problem, mask=(key >= row - 1) & (key <= row))

    problem = shape(6, 11, mask="causal", seqlens_q=[6, 4], seqlens_kv=[7, 11])
    row, key = rows_and_keys(problem)
    rows, keys = (torch.tensor(problem[name])[:, None, None, None] for name in ("seqlens_q", "seqlens_kv"))
    yield written_out("lengths, causal from the end", problem,
                      mask=(row < rows) & (key < keys) & (key <= row + keys - rows))


def mixed_cases():
    problem = shape(heads=4, heads_kv=2)
    descales = {"q": (torch.tensor([[0.5, 1.25, 0.75, 2.0], [1.5, 0.625, 1.0, 0.875]])[:, :, None].double(), 5),
                "k": (torch.tensor([[[1.375]]]).double(), 7),
                "v": (torch.tensor([[[0.5, 1.5], [0.75, 2.0]], [[1.25, 1.0], [0.625, 1.75]]]).double(), 4)}
    yield written_out("descales of a head, the tensor and blocks", problem, descales=descales)

    problem = shape(8, 8, heads=4, heads_kv=1, mask="causal", window_left=4, logits_soft_cap=2.0)
    row, key = rows_and_keys(problem)
    yield written_out("heads 4 on 1, soft cap, causal window", problem, mask=(key <= row) & (key >= row - 4))

    bias = eighths((2, 1, 6, 9), 8).double() / 8
    bias[bias > 1] = -INFINITY
    problem = shape(6, 9, heads=4, heads_kv=2, head_dim_v=6, mask="causal", window_left=5, logits_soft_cap=1.25,
                    alibi="linear", alibi_slopes=[0.5, 0.25, 0.125, 1.0], sink="last", sinks=[0.5, -1.25, 2.0, 0.0])
    row, key = rows_and_keys(problem)
    slopes = torch.tensor(problem["alibi_slopes"], dtype=torch.float64)[:, None, None]
    distance = key - (row + 3)
    yield written_out("everything", problem, mask=(distance <= 0) & (distance >= -5) & (bias != -INFINITY),
                      added=slopes * distance + bias.masked_fill(bias == -INFINITY, 0), bias=bias)


def main(path):
    cases = [*sdpa_cases(), *written_out_cases(), *mixed_cases()]
    lines = ",\n".join(json.dumps(case, separators=(",", ":"), allow_nan=False) for case in cases)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'{{"producer": "PyTorch {torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{path}: {len(cases)} cases")


if __name__ == "__main__":
    main(sys.argv[1])
