#!/usr/bin/env python3
"""Compiles attention.cu with torch's load_inline, records it, healthy and with each mistake, and says what tilescope finds.

usage: record.py [FOLDER]   on a machine with a GPU, nvcc, ninja, torch and tilescope; FOLDER gets the recordings
"""

import pathlib
import sys

import tilescope
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = pathlib.Path(__file__).with_name("attention.cu")
DECLARATION = """
std::vector<at::Tensor> attention(at::Tensor q, at::Tensor k, at::Tensor v, bool causal, int64_t mistake,
                                  const std::string& sink);
"""
MISTAKES = {"healthy": None, "acc_not_rescaled": "acc", "diagonal_one_right": "s", "tail_in_sum": "l",
            "v_of_next_key": "acc"}  # fmt: skip


def build(with_hooks=True):
    return load_inline(
        "attention_with_hooks" if with_hooks else "attention_without_hooks",
        cpp_sources=[DECLARATION],
        cuda_sources=[SOURCE.read_text()],
        functions=["attention"],
        extra_cuda_cflags=["-std=c++20", "-I" + tilescope.include(), f"-DTILESCOPE_DUMP={int(with_hooks)}"],
    )


def record(extension, mistake):
    """Two query heads on each KV head, and lengths that no block divides."""
    torch.manual_seed(0)
    q = torch.randn(1, 4, 100, 64, device="cuda")
    k, v = (torch.randn(1, 2, 150, 64, device="cuda") for _ in "kv")
    causal = mistake != "tail_in_sum"  # A causal mask hides the tail from every row.
    recorder = tilescope.Recorder(q, k, v, stages=("s", "m", "p", "l", "acc"), causal="top_left" if causal else False,
                                  block_m=64, block_n=32)  # fmt: skip
    o, lse = extension.attention(q, k, v, causal, list(MISTAKES).index(mistake), recorder.sink())
    recorder.outputs(o=o, lse=lse)
    return recorder


def main(folder=None):
    extension = build()
    print(f"{'planted':20} {'in':6} {'verdict':10} {'stage':6} cause")
    right = 0
    for mistake, stage in MISTAKES.items():
        recorder = record(extension, mistake)
        report = tilescope.judge(recorder)
        if folder:
            recorder.save(pathlib.Path(folder) / f"{mistake}.h5")
        cause = report.causes[0].name if report.causes else ""
        print(f"{mistake:20} {stage or '-':6} {report.verdict:10} {report.stage or '-':6} {cause}", flush=True)
        right += report.stage == stage
    print(f"{right} of {len(MISTAKES)} stages are the expected ones")
    return 0 if right == len(MISTAKES) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
