"""A small declared kernel in a file, written with h5py after dump/FORMAT.md."""

import h5py
import numpy as np

ROWS, COLS, DEPTH, STEP = 40, 24, 96, 32
TEXT = """
axes   n: rows by 16; m: cols; k: depth by step
input  a[n, k]: f16; w[m, k]: bf16; c
stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
stage  y[n, m]: f16 = acc * c
output y
"""


def bf16_bits(numbers):
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def computed(added=0):
    """Inputs and stages of the kernel; `added` is a mistake in y."""
    rng = np.random.default_rng(7)
    a = rng.standard_normal((ROWS, DEPTH)).astype(np.float16)
    w = bf16_bits(rng.standard_normal((COLS, DEPTH)))
    numbers = (w.astype(np.uint32) << 16).view(np.float32)
    products = [a[:, k : k + STEP].astype(np.float32) @ numbers[:, k : k + STEP].T for k in range(0, DEPTH, STEP)]
    acc = np.cumsum(np.stack(products), axis=0, dtype=np.float32)
    c = np.float32(0.125)
    return dict(a=a, w=w, c=c), dict(acc=acc, y=(acc[-1] * c + np.float32(added)).astype(np.float16))


def off_by_three_ulps():
    """The sum of large numbers may be off by far more than what is made of it: text, inputs and stages, of which y[5] is wrong by itself."""
    text = "axes i: n; k: depth\ninput x[i, k]\nstage t[i] = sum(k: x)\nstage y[i] = t * 0.3\noutput y"
    x = np.random.default_rng(3).normal(0, 1e4, (8, 4096)).astype(np.float32)
    t = x.sum(axis=1, dtype=np.float64).astype(np.float32)
    y = t * np.float32(0.3)
    y[5] += 3 * np.spacing(y[5])
    return text, dict(x=x), dict(t=t, y=y)


def write(path, inputs, stages, text=TEXT, sizes=None):
    with h5py.File(path, "w") as f:
        f.attrs.update(format="tilescope", format_version=1, kernel="gemm")
        f.create_group("program").attrs["text"] = text
        f.create_group("program/sizes").attrs.update({"step": STEP} if sizes is None else sizes)
        for name, values in inputs.items():
            f["program/inputs/" + name] = values
        for name, values in stages.items():
            f["program/stages/" + name] = values
        f.attrs["complete"] = 1
