"""Appends what PyTorch computes from the same inputs to recordings of forward kernels.

usage: references.py FILE...

Each FILE gets /references/flash and /references/math, where that backend has the call; tile-diff then says which of
them are right and which one the kernel is closest to. Takes q, k and v in fp16 or bf16, causal masks and groups of query
heads; refuses what PyTorch is not asked for here (windows, soft caps, biases, lengths). Needs a GPU, PyTorch 2.3 or
newer, and h5py. Exit codes: 0 appended, 2 not.
"""

import sys

try:
    import numpy as np
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention
except ImportError:
    print("references.py: PyTorch or NumPy: not found; run it with a Python that has them", file=sys.stderr)
    sys.exit(2)

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
# What PyTorch is not asked for here, and what /problem says of a call without it.
PLAIN = {"direction": "forward", "diagonal_offset": 0, "window_left": -1, "window_right": -1, "logits_soft_cap": 0,
         "alibi": "none", "sink": "none"}


class Refused(Exception):
    """Why nothing is appended, as one line."""


def for_each_query_head(q, *tensors):
    """k and v with a head of their own for each query head."""
    return [tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in tensors]


def scale_of(q):
    return float(np.float32(1) / np.sqrt(np.float32(q.shape[3])))


def visible(q, k, diagonal):
    """Row i sees keys up to i + diagonal."""
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(diagonal=diagonal)


def references(q, k, v, causal, bottom_right=False, broken=False):
    """{name: (o, lse or None)} of PyTorch's backends, whose own causal mask starts at the top left. `broken` adds a
    reference whose rows see the wrong keys."""
    k, v = for_each_query_head(q, k, v)
    seqlen_q, seqlen_kv = q.shape[2], k.shape[2]
    scale = scale_of(q)
    found = {}
    shifted = causal and bottom_right and seqlen_q != seqlen_kv
    with sdpa_kernel(SDPBackend.MATH):
        mask = visible(q, k, seqlen_kv - seqlen_q) if shifted else None
        found["math"] = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and not shifted,
                                                     scale=scale), None
        if broken:
            # The last row sees the last key; where that is no difference, every row sees one key too many.
            seen = visible(q, k, seqlen_kv - seqlen_q or 1)
            found["broken"] = scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale), None
    if causal and seqlen_q != seqlen_kv and not shifted:
        print("no reference flash: that backend aligns its causal mask to the other corner")
        return found
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        o = None if shifted else scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    lse = None
    operator = getattr(torch.ops.aten, "_scaled_dot_product_flash_attention", None)
    if operator is not None:
        # Its own operator aligns to the bottom right, and some versions pad the rows.
        flash = operator(q, k, v, 0.0, causal, scale=scale)
        o, lse = flash[0] if o is None else o, flash[1][:, :, :seqlen_q]
    if o is not None:
        found["flash"] = o, lse
    return found


def append_references(path, found, dtype):
    import h5py  # an extension may have written the file with the HDF5 of its own

    with h5py.File(path, "r+") as f:
        for name, (o, lse) in found.items():
            # NumPy has no bfloat16: its bits.
            bits = o.contiguous().view(torch.int16).cpu().numpy().view(np.uint16)
            f[f"references/{name}/o"] = bits.view(np.float16) if dtype == "f16" else bits
            f[f"references/{name}/o"].attrs["dtype"] = dtype
            if lse is not None:
                f[f"references/{name}/lse"] = lse.float().contiguous().cpu().numpy()


def read_call(path):
    """q, k and v on the GPU, their type, and whether the call is causal and from the bottom right."""
    import h5py

    with h5py.File(path, "r") as f:
        problem = {**PLAIN, **f["problem"].attrs}
        inputs = {name: f["inputs"][name][()] for name in ("q", "k", "v")}
        more = sorted(set(f["inputs"]) - set(inputs))
        if "references" in f:
            raise Refused("it has references already")
    dtypes = {problem.get(f"dtype_{name}", "f16") for name in inputs}
    if len(dtypes) > 1 or not dtypes <= set(DTYPES):
        raise Refused(f"q, k and v are {', '.join(sorted(dtypes))}; PyTorch's backends take fp16 or bf16")
    unusual = [name for name, plain in PLAIN.items() if problem[name] != plain] + [f"/inputs/{name}" for name in more]
    if unusual:
        raise Refused(f"it has {', '.join(unusual)}; PyTorch is asked for plain and causal attention only")
    if abs(float(problem["sm_scale"]) * np.sqrt(inputs["q"].shape[3]) - 1) > 1e-6:
        raise Refused("sm_scale is not 1 / sqrt(head_dim)")
    [dtype] = dtypes
    tensors = [torch.from_numpy(bits.view(np.int16)).cuda().view(DTYPES[dtype]) for bits in inputs.values()]
    return (tensors, dtype, problem.get("mask", "none") == "causal",
            problem.get("causal_alignment", "bottom_right") == "bottom_right")


def main(paths):
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if paths else 2
    for path in paths:
        try:
            if not torch.cuda.is_available():
                raise Refused("PyTorch sees no GPU; run it on a machine that has one")
            (q, k, v), dtype, causal, bottom_right = read_call(path)
        except (Refused, ImportError, OSError, KeyError) as error:
            print(f"references.py: {path}: {error}", file=sys.stderr)
            return 2
        found = references(q, k, v, causal, bottom_right)
        append_references(path, found, dtype)
        print(f"{path}: {', '.join(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
