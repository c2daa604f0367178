"""Tests of the kernels: their outputs, from the library as it is shipped, and their stages, from the program with hooks."""

import ctypes
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import tilescope

BUILD = pathlib.Path(os.environ.get("KERNELS_BUILD", pathlib.Path(__file__).with_name("build"))).resolve()
WINDOW_LEFT, SOFT_CAP = 24, 5.0

#: What each kernel computes, in the words of tilescope.check().
CALLS = {
    "full": {},
    "causal": {"causal": True},
    "grouped": {},
    "window": {"causal": True, "window": (WINDOW_LEFT, 0)},
    "soft_cap": {"soft_cap": SOFT_CAP},
}
#: Known issues, and why; a test that passes although it is listed here fails.
KNOWN = {"window": "issue 7: the window is a key too short on its left"}
KERNELS = [
    pytest.param(name, marks=pytest.mark.xfail(reason=KNOWN[name], raises=tilescope.Diverged, strict=True) if name in KNOWN else ())
    for name in CALLS
]


class Call(ctypes.Structure):
    """As in kernels.h."""

    _fields_ = [(name, ctypes.c_int) for name in ("heads", "heads_kv", "seqlen", "head_dim")] + [("scale", ctypes.c_float)] + [
        (name, ctypes.POINTER(ctypes.c_float)) for name in "qkvo"]


def attention(name, q, k, v):
    o = np.empty_like(q)
    arrays = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (q, k, v, o)]
    heads, seqlen, head_dim = q.shape
    call = Call(heads, len(k), seqlen, head_dim, 1 / math.sqrt(head_dim), *arrays)
    assert ctypes.CDLL(BUILD / "libkernels.so").attention(name.encode(), ctypes.byref(call)) == 0
    return o


@pytest.mark.parametrize("name", KERNELS)
def test_output(name):
    draw = np.random.default_rng(7)
    heads, heads_kv, seqlen, head_dim = 4, 2 if name == "grouped" else 4, 150, 64
    q, k, v = (draw.standard_normal((h, seqlen, head_dim), dtype=np.float32) for h in (heads, heads_kv, heads_kv))
    tilescope.check(q, k, v, attention(name, q, k, v), **CALLS[name])


@pytest.mark.parametrize("name", KERNELS)
def test_stages(name, tilescope_recording):
    """What the program leaves in TILESCOPE_DIR is judged when it has ended."""
    subprocess.run([BUILD / "record", name], check=True)
