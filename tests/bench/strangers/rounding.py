"""Number types as NumPy has them not: rounding to a type, and the largest error of a rounding."""

import numpy as np

# Bits of the significand, exponent (as frexp has it) of the smallest normal number, largest number.
TYPES = {
    "f32": (24, -125, float(np.finfo(np.float32).max)),
    "f16": (11, -13, 65504.0),
    "bf16": (8, -125, 3.3895313892515355e38),
    "e4m3": (4, -5, 448.0),
}
CODES = {"f32": 0, "f16": 1, "bf16": 2, "e4m3": 3}  # of narrow() in prelude.c


def narrow(x, dtype):
    """x rounded to nearest, ties to even; of e4m3 it stops at the largest number."""
    x = np.asarray(x, np.float64)
    bits, smallest, largest = TYPES[dtype]
    exponent = np.maximum(np.frexp(x)[1], smallest)
    return np.clip(np.ldexp(np.rint(np.ldexp(x, bits - exponent)), exponent - bits), -largest, largest).astype(np.float32)


def rounding(x, dtype):
    """How far from x rounding to the type may take it."""
    bits, smallest, _ = TYPES[dtype]
    return 2.0**-bits * np.abs(x) + 2.0 ** (smallest - bits - 1)
