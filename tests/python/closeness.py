#!/usr/bin/env python3
"""Prints the table of oracle/PYTHON.md: mistakes that a comparison with a tolerance by hand lets through, and check().

usage: closeness.py   with the package tilescope installed, or its folder in PYTHONPATH
"""

import numpy as np
import tilescope
from reference import attention, visible


def draw(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


Q, K, V = (draw((1, 4, 1024, 64), seed) for seed in range(3))


def healthy(seen=None):
    return attention(Q, K, V, seen=seen)[0]


def with_factor(index, factor):
    """The healthy output, with some of it times a number."""
    o = healthy()
    o[index] *= factor
    return o


def one_key_left():
    """The first row would see nothing, and is right."""
    return np.concatenate([healthy(CAUSAL)[:, :, :1], attention(Q[:, :, 1:], K, V, seen=CAUSAL[:-1])[0]], 2)


def last_keys_twice():
    """64 keys are counted twice in the sum that o is divided by."""
    return healthy() / (1 + attention(Q, K, V)[2][..., -64:].sum(-1, keepdims=True))


def as_bfloat16(values):
    """Truncated, as a store of the upper half does."""
    return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


CAUSAL = visible(1024, 1024, causal=0)
EVERY_THOUSANDTH_ROW = (slice(None), slice(None), slice(17, None, 1000))
#: What is wrong, the output, and whether the call is causal.
MISTAKES = [
    ("nothing", healthy, False),
    ("nothing, causal", lambda: healthy(CAUSAL), True),
    ("the last key is left out", lambda: attention(Q, K[:, :, :-1], V[:, :, :-1])[0], False),
    ("the diagonal is one key too far right", lambda: healthy(visible(1024, 1024, causal=1)), True),
    ("the diagonal is one key too far left, rows from 1 on", one_key_left, True),
    ("one row in a thousand is 5 % too large", lambda: with_factor(EVERY_THOUSANDTH_ROW, 1.05), False),
    ("everything is 2 % too large", lambda: with_factor((), 1.02), False),
    ("scores are scaled by 0.126 in place of 0.125", lambda: attention(Q, K, V, scale=0.126)[0], False),
    ("the last 64 keys are counted twice in l", last_keys_twice, False),
    ("head 3 is zero", lambda: with_factor((0, 3), 0.0), False),
    ("o went through bfloat16 by truncation", lambda: as_bfloat16(healthy()), False),
]


def verdict_of(passes):
    return "passes" if passes else "fails"


def main():
    print("| o is float16, 4 heads, 1024 x 1024 x 64; wrong is | `allclose(atol=1e-2)` | `tilescope.check` |")
    print("|---|---|---|")
    for name, output, causal in MISTAKES:
        o = output().astype(np.float16)
        right = healthy(CAUSAL if causal else None)
        close = np.allclose(o.astype(np.float64), right, rtol=0, atol=1e-2)
        try:
            tilescope.check(Q, K, V, o, causal=causal, causes=False)
            matches = True
        except tilescope.Diverged:
            matches = False
        print(f"| {name} | {verdict_of(close)} | {verdict_of(matches)} |")


if __name__ == "__main__":
    main()
