#!/usr/bin/env python3
"""Records the CuTe DSL kernel of attention.py, healthy and with each mistake, and says what tilescope finds.

usage: record.py [FOLDER]   on a machine with a GPU, torch, nvidia-cutlass-dsl and tilescope; FOLDER gets the recordings
"""

import pathlib
import sys

import tilescope
import torch
from attention import BLOCK_M, BLOCK_N, HEAD_DIM, MISTAKES, attention

#: cute.arch.exp() is ex2.approx of its argument times log2(e).
DECLARED = {"p.exp": "ex2_approx"}


def record(mistake="", select=""):
    """Two query heads on each KV head."""
    torch.manual_seed(0)
    q = torch.randn(1, 4, 128, HEAD_DIM, device="cuda")
    k, v = (torch.randn(1, 2, 96, HEAD_DIM, device="cuda") for _ in "kv")
    o = torch.empty_like(q)
    recorder = tilescope.Recorder(q, k, v, stages=("s", "m", "p", "l", "acc"), block_m=BLOCK_M, block_n=BLOCK_N,
                                  select=select, declare=DECLARED)  # fmt: skip
    attention(q, k, v, o, recorder, mistake)
    torch.cuda.synchronize()
    recorder.outputs(o=o)
    return recorder


def show(name, expected, recorder, folder):
    """One line: what was planted, what was found. Returns whether the stage is right."""
    report = tilescope.judge(recorder)
    if folder:
        recorder.save(pathlib.Path(folder) / f"{name}.h5")
    cause = report.causes[0].name if report.causes else ""
    print(f"{name:20} {expected or '-':6} {report.verdict:10} {report.stage or '-':6} {cause}", flush=True)
    return report.stage == expected


def main(folder=None):
    print(f"{'planted':20} {'in':6} {'verdict':10} {'stage':6} cause")
    right = [
        show("healthy", None, record(), folder),
        show("healthy_selected", None, record(select="head=1-2:q_block=1:kv_tile=1-"), folder),
        *(show(mistake, stage, record(mistake), folder) for mistake, stage in MISTAKES.items()),
    ]
    print(f"{sum(right)} of {len(right)} stages are the expected ones")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
