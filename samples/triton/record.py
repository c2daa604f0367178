#!/usr/bin/env python3
"""Records the Triton kernels of attention.py, healthy and with each mistake, and says what tilescope finds.

usage: record.py [FOLDER]   on a machine with a GPU, torch, triton and tilescope; FOLDER gets the recordings
"""

import pathlib
import sys
import time

import tilescope
import torch
from attention import BACKWARD_MISTAKES, FORWARD_MISTAKES, backward, forward

BLOCKS = {"block_m": 64, "block_n": 64}
FORWARD_STAGES = ("s", "m", "p", "l", "acc")
BACKWARD_STAGES = ("s", "p", "dp", "ds")


def draw(seed=0):
    """Two query heads on each KV head, and lengths that no block divides."""
    torch.manual_seed(seed)
    q = torch.randn(1, 4, 200, 64, dtype=torch.float16, device="cuda")
    k, v = (torch.randn(1, 2, 200, 64, dtype=torch.float16, device="cuda") for _ in "kv")
    return q, k, v


def record_forward(mistake=""):
    q, k, v = draw()
    causal = mistake != "tail_not_masked"  # A causal mask hides the tail from every row.
    recorder = tilescope.Recorder(q, k, v, stages=FORWARD_STAGES, causal=causal, **BLOCKS)
    o, lse, _ = forward(q, k, v, causal, recorder, mistake, **BLOCKS)
    recorder.outputs(o=o, lse=lse)
    return recorder


def record_backward(mistake=""):
    q, k, v = draw()
    o, lse, _ = forward(q, k, v, True, **BLOCKS)
    dout = torch.randn_like(o)
    recorder = tilescope.Recorder(q, k, v, dout=dout, o=o, lse=lse, stages=BACKWARD_STAGES, causal=True, **BLOCKS)
    dk, dv = backward(q, k, v, o, lse, dout, True, recorder, mistake, **BLOCKS)
    recorder.outputs(dk=dk, dv=dv)
    return recorder


def show(name, expected, recorder, folder):
    """One line: what was planted, what was found. Returns whether the stage is right."""
    begin = time.perf_counter()
    report = tilescope.judge(recorder)
    seconds = time.perf_counter() - begin
    if folder:
        recorder.save(pathlib.Path(folder) / f"{name}.h5")
    cause = report.causes[0].name if report.causes else ""
    stages = f"{expected or '-':6} {report.verdict:10} {report.stage or '-':6}"
    print(f"{name:24} {stages} {cause:28} {seconds:5.2f}", flush=True)
    return report.stage == expected


def main(folder=None):
    print(f"{'planted':24} {'in':6} {'verdict':10} {'stage':6} {'cause':28} seconds")
    right = [
        show("healthy", None, record_forward(), folder),
        *(show(name, stage, record_forward(name), folder) for name, stage in FORWARD_MISTAKES.items()),
        show("backward_healthy", None, record_backward(), folder),
        *(show(name, stage, record_backward(name), folder) for name, stage in BACKWARD_MISTAKES.items()),
    ]
    print(f"{sum(right)} of {len(right)} stages are the expected ones")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
