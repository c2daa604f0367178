"""Whether a mistake has an effect: which stage it changes first, and where by more than rounding could.

The healthy kernel runs on the same inputs. A stage is the first that a mistake changes when every recorded stage before it has
the same bits with and without the mistake, so that what it computed from is the same. The bounds are first-order ones for
float32, with U = 2^-24: a sum of n products is off by n U times the sum of their magnitudes, an exponential by what its
argument is off, a cast by half a unit in the last place of its type. Where stages are left out, errors of all that came before
are added up. Budgets of tile-diff are no part of this: an effect is CLEAR times these bounds.
"""

import dataclasses

import numpy as np

from strangers import call, rounding

U = 2.0**-24
CLEAR = 8
# Fewer wrong elements than this cost less to list than a tenth of any description: nobody could describe them.
LEAST = 16


def repeated(p, values):
    return np.repeat(values.astype(np.float64), p.group, axis=1)


def over_tiles(p, values):
    """[B, H, Sq] or [B, H, Sq, x] for each KV tile."""
    tiles = -(-p.seqlen_kv // p.block_n)
    return np.repeat(values[:, :, None], tiles, axis=2)


def magnitudes(function, p, inputs):
    """The stages of the healthy kernel on |v|: the sums of magnitudes that acc and o are rounded in."""
    return call.run(function, dataclasses.replace(p, dtype_o="f32"), inputs | {"v": np.abs(inputs["v"])})


def score_bound(p, inputs, healthy):
    constants = call.call_numbers(p, p.scores.startswith("raw"))
    products = np.abs(inputs["q"].astype(np.float64)) @ np.abs(repeated(p, inputs["k"])).swapaxes(2, 3)
    finite = np.where(np.isfinite(healthy["s"]), np.abs(healthy["s"]), 0)
    factor = constants["FACTOR"] * constants["UNIT"]
    bias = 0.0
    if p.alibi:
        rows, keys = np.arange(p.seqlen_q)[:, None], np.arange(p.seqlen_kv)
        bias = inputs["slopes"][None, :, None, None] * np.abs(keys - rows - p.diagonal) * constants["UNIT"]
    return U * ((p.head_dim + 8) * products * factor + 8 * finite + 8 * bias), finite, constants["STRETCH"]


def forward_bounds(p, inputs, healthy, sums, everything):
    """{stage: how far rounding may take each element}, from the stages before it or, unless everything is recorded, in all."""
    score, size, stretch = score_bound(p, inputs, healthy)
    worst = np.where(np.isfinite(healthy["s"]), score, 0).max(axis=-1)
    largest = size.max(axis=-1)
    argument = U * (16 + 4 * 2 * largest * stretch)  # of an exponential, relative, by row
    cast = 2.0 ** -rounding.TYPES[p.dtype_p][0] if p.dtype_p != "f32" else 0.0
    floor = 2.0 ** (rounding.TYPES[p.dtype_p][1] - rounding.TYPES[p.dtype_p][0]) / p.p_scale * p.seqlen_kv if cast else 0.0
    upstream = 0.0 if everything else 2 * worst * stretch
    relative = argument + upstream
    terms = p.seqlen_kv + 32
    p_bound = np.abs(healthy["p"]) * relative[..., None]
    if p.p_is_cast:
        p_bound = p_bound + 2 * rounding.rounding(healthy["p"], p.dtype_p)
    hidden_cast = 0.0 if everything else 2 * cast
    in_sum = relative + U * terms + (hidden_cast if p.sums_cast_p else 0)
    in_acc = relative + U * terms + hidden_cast + 2.0**-9 * (p.dtype_acc == "f16")
    lanes = (..., None) if p.lanes > 1 else (...,)
    lost = 0.0 if everything else floor * np.abs(inputs["v"]).max()  # l is at least 1
    o_bound = sums["o"] * (in_acc + in_sum)[..., None] + lost + 2 * rounding.rounding(healthy["o"], p.dtype_o)
    return dict(
        q=0.0, k=0.0, v=0.0, s=score, m=4 * U * np.abs(healthy["m"]) + over_tiles(p, 0 * worst if everything else worst), p=p_bound,
        l=np.abs(healthy["l"]) * over_tiles(p, in_sum)[lanes], acc=np.abs(sums["acc"]) * over_tiles(p, in_acc)[..., None] + lost * p.p_scale,
        o=o_bound, lse=(in_sum + 8 * U * (1 + np.abs(healthy["lse"]))) * 1.5)


def wrong(got, healthy, bound):
    """Elements that the mistake changed clearly; what the healthy kernel never wrote is none."""
    known = healthy.view(np.uint32) != call.UNWRITTEN.view(np.uint32)
    finite = np.isfinite(got) & np.isfinite(healthy)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(got.astype(np.float64) - healthy) > CLEAR * np.asarray(bound)
    same = (got == healthy) | (np.isnan(got) & np.isnan(healthy))
    return known & ~same & np.where(finite, far, True)


def same_bits(got, healthy):
    return np.array_equal(got.view(np.uint32), healthy.view(np.uint32))


@dataclasses.dataclass(frozen=True)
class Effect:
    stage: str  # the first recorded one that the mistake changes
    elements: int  # of it, changed beyond doubt
    compared: int


def first_effect(got, healthy, bounds, recorded):
    """The effect of a mistake, or the reason why it counts as none."""
    for stage in recorded:
        if same_bits(got[stage], healthy[stage]):
            continue
        changed = int(wrong(got[stage], healthy[stage], bounds[stage]).sum())
        if changed >= LEAST:
            return Effect(stage, changed, int(healthy[stage].size))
        return "too few" if changed else "within rounding"
    return "nothing changed"
