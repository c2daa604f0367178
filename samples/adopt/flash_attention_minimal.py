#!/usr/bin/env python3
"""Builds flash-attention-minimal's extension, with hooks or without, and runs it.

usage: flash_attention_minimal.py CHECKOUT [PREFIX [FILE]]

Without PREFIX the extension is built as bench.py does. With it, flash.cu has the lines of flash-attention-minimal.diff,
and Tilescope is installed in PREFIX. FILE gets a recording; without it the forward pass is timed. Needs a GPU, PyTorch,
ninja and nvcc.
"""

import os
import pathlib
import statistics
import sys
import time

import torch
from torch.utils.cpp_extension import load


def build(checkout, prefix):
    flags = {"extra_cuda_cflags": ["-O2"]}
    if prefix:
        flags = {
            "extra_include_paths": [f"{prefix}/include/tilescope"],
            "extra_cuda_cflags": ["-O2", "-DDEBUG_DUMP"],
            "extra_ldflags": [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-ltilescope_capture", "-ltilescope"],
        }
    name = "minimal_attn_hooks" if prefix else "minimal_attn"
    begin = time.perf_counter()
    module = load(name=name, sources=[str(checkout / "main.cpp"), str(checkout / "flash.cu")], **flags)
    print(f"built in {time.perf_counter() - begin:.1f} s")
    return module


def draw(batch, heads, seqlen, head_dim=64):
    torch.manual_seed(0)
    return [torch.randn(batch, heads, seqlen, head_dim, device="cuda") for _ in "qkv"]


def median_time(module):
    """Milliseconds of a forward pass."""
    q, k, v = draw(16, 12, 512)
    times = []
    for _ in range(11):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        module.forward(q, k, v)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


def main(checkout, prefix="", file=""):
    module = build(pathlib.Path(checkout), str(pathlib.Path(prefix).resolve()) if prefix else "")
    if not file:
        print(f"{median_time(module):.3f} ms")
        return
    os.environ["MINIMAL_ATTN_FILE"] = file
    module.forward(*draw(1, 2, 128))


if __name__ == "__main__":
    main(*sys.argv[1:])
