"""A small declared kernel that the tests of tile-view look at, and an element of it that is wrong."""

import os

import numpy as np
import tile_view_case  # noqa: F401  makes small_program known

import small_program

BATCH, ROWS, COLS, DEPTH, STEP = 2, 12, 10, 48, 16
TEXT = """
axes   b: batch; n: rows by 4; m: cols; k: depth by step
input  x[b, n, k]; w[k, m]
stage  acc[b, n, m] over k = acc + sum(k: x * w)
stage  r[b, n] = max(m: acc)
stage  y[b, n, m] = acc * 0.5 where m <= n else -inf
output y
"""
FIRST = (1, 7, 3)  # the element that is wrong, from block 1 on


def computed():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((BATCH, ROWS, DEPTH)).astype(np.float32)
    w = rng.standard_normal((DEPTH, COLS)).astype(np.float32)
    parts = [x[:, :, k:k + STEP] @ w[k:k + STEP] for k in range(0, DEPTH, STEP)]
    acc = np.cumsum(np.stack(parts), axis=0, dtype=np.float32)
    return dict(x=x, w=w), acc


def stages_of(acc):
    hidden = np.arange(COLS) > np.arange(ROWS)[:, None]
    return dict(acc=acc, r=acc[-1].max(axis=-1), y=np.where(hidden, -np.inf, acc[-1] * np.float32(0.5)).astype(np.float32))


def write(path, stages, inputs, text=TEXT, step=STEP):
    """Whole or not at all, as whoever writes a file again does."""
    small_program.write(path.with_suffix(".new"), inputs, stages, text, {"step": step} if step else {})
    os.replace(path.with_suffix(".new"), path)
    return path


def with_first_wrong(path):
    """One element of acc is off by 2 after block 1, and what follows from it."""
    inputs, acc = computed()
    acc[(slice(1, None), *FIRST)] += np.float32(2)
    return write(path, stages_of(acc), inputs)
