#!/usr/bin/env python3
"""Records the forward kernel of Triton's tutorial, or times it.

usage: triton_tutorial.py TUTORIAL [FILE]
       triton_tutorial.py TUTORIAL --time-recording

TUTORIAL is python/tutorials/06-fused-attention.py, for FILE with the lines of triton-tutorial.diff. FILE gets a recording;
without it the kernel is timed, or with --time-recording while everything of it is recorded. Needs a GPU, PyTorch, Triton
and the package tilescope.
"""

import importlib.util
import sys

import tilescope
import torch
import triton
from tilescope import triton as ts

BLOCKS = {"BLOCK_M": 128, "BLOCK_N": 64}
# With more, Triton 3.6 does not compile the kernel where nothing of it is recorded.
STAGES = 1


def load(path):
    spec = importlib.util.spec_from_file_location("fused_attention", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["fused_attention"] = module
    spec.loader.exec_module(module)
    return module


def launch(kernel, q, k, v, causal, recorder=None):
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    hooks = {"dump": ts.dump_of(recorder)} if "dump" in kernel.arg_names else {}
    grid = (triton.cdiv(q.shape[2], BLOCKS["BLOCK_M"]), q.shape[0] * q.shape[1])
    strides = [stride for tensor in (q, k, v, o) for stride in tensor.stride()]
    sizes = {"Z": q.shape[0], "H": q.shape[1], "N_CTX": q.shape[2], "HEAD_DIM": q.shape[3]}
    kernel[grid](q, k, v, q.shape[3] ** -0.5, lse, o, *strides, CAUSAL=causal, num_warps=4, num_stages=STAGES, **sizes,
                 **BLOCKS, **hooks)  # fmt: skip
    return o, lse


def draw(batch, heads, seqlen, head_dim=64):
    torch.manual_seed(0)
    return [torch.randn(batch, heads, seqlen, head_dim, dtype=torch.float16, device="cuda") for _ in "qkv"]


def record(q, k, v):
    return tilescope.Recorder(q, k, v, stages=("s", "m", "p", "l", "acc"), causal=True, like="triton-tutorial",
                              block_m=BLOCKS["BLOCK_M"], block_n=BLOCKS["BLOCK_N"])  # fmt: skip


def main(tutorial, file=None):
    kernel = load(tutorial)._attn_fwd.fn  # without the autotuner
    if file in (None, "--time-recording"):
        q, k, v = draw(4, 16, 2048)
        recorder = file and record(q, k, v)
        print(f"{triton.testing.do_bench(lambda: launch(kernel, q, k, v, True, recorder), rep=500):.4f} ms")
        return
    q, k, v = draw(1, 2, 256)
    recorder = record(q, k, v)
    o, lse = launch(kernel, q, k, v, True, recorder)
    recorder.outputs(o=o, lse=lse)
    recorder.save(file)


if __name__ == "__main__":
    main(*sys.argv[1:])
