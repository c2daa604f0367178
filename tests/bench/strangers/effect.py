"""Whether a mistake has an effect: which stage it changes first, and where by more than rounding could.

The healthy kernel runs on the same inputs. A stage is the first that a mistake changes when every recorded stage before it
has the same bits with and without the mistake, so that what it computed from is the same. The bounds are first-order ones for
float32, with U = 2^-24: a sum of n products is off by n U times the sum of their magnitudes, an exponential by what its
argument is off, a cast by half a unit in the last place of its type. Where stages are left out, errors of all that came
before are added up. Budgets of tile-diff are no part of this: an effect is CLEAR times these bounds.
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
    return call.run(function, dataclasses.replace(p, dtype_o="f32"), inputs | {"v": np.abs(inputs["v"])}, "forward")


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
    """{stage: how far rounding may take each element}: in its own step, or in all unless everything is recorded."""
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
    in_sum = relative + U * terms + (2 * cast if p.p_is_cast and not p.sums_cast_p else hidden_cast if p.sums_cast_p else 0)
    in_acc = relative + U * terms + hidden_cast + 2.0**-9 * (p.dtype_acc == "f16")
    lanes = (..., None) if p.lanes > 1 else (...,)
    lost = 0.0 if everything else floor * np.abs(inputs["v"]).max()  # l is at least 1
    o_bound = sums["o"] * (in_acc + in_sum)[..., None] + lost + 2 * rounding.rounding(healthy["o"], p.dtype_o)
    return dict(
        q=0.0, k=0.0, v=0.0, s=score, p=p_bound,
        m=4 * U * np.abs(healthy["m"]) + over_tiles(p, 0 * worst if everything else worst),
        l=np.abs(healthy["l"]) * over_tiles(p, in_sum)[lanes],
        acc=np.abs(sums["acc"]) * over_tiles(p, in_acc)[..., None] + lost * p.p_scale,
        o=o_bound, lse=(in_sum + 8 * U * (1 + np.abs(healthy["lse"]))) * 1.5)


def backward_bounds(p, inputs, healthy, everything):
    """The same for a backward pass; what it reads of the forward pass has no error."""
    score, size, stretch = score_bound(p, inputs, healthy)
    size_of = {name: np.where(np.isfinite(each), np.abs(each), 0).astype(np.float64) for name, each in healthy.items()}
    q, dout = (np.abs(inputs[name]).astype(np.float64) for name in ("q", "dout"))
    k, v = np.abs(repeated(p, inputs["k"])), np.abs(repeated(p, inputs["v"]))
    lse = np.where(np.isfinite(inputs["lse"]), np.abs(inputs["lse"]), 0)[..., None]
    relative = U * (16 + 8 * (size * stretch + lse)) + (0.0 if everything else score * stretch)
    casts = [2.0 ** -rounding.TYPES[name][0] if name != "f32" else 0.0 for name in (p.dtype_p, p.dtype_ds)]
    p_bound = size_of["p"] * relative + (2 * rounding.rounding(size_of["p"], p.dtype_p) if p.p_is_cast else 0)
    delta = U * (p.head_dim_v + 8) * (dout * np.abs(inputs["o"])).sum(axis=-1)
    dp = U * (p.head_dim_v + 8) * (dout @ v.swapaxes(2, 3))
    inner = size_of["dp"] + size_of["delta"][..., None]
    ds = (U * 16 + (2 * casts[0] if p.p_is_cast else 0)) * size_of["p"] * inner
    if not everything:
        ds = ds + p_bound * inner + size_of["p"] * (dp + delta[..., None])
    ds_bound = ds + (2 * rounding.rounding(size_of["ds"], p.dtype_ds) if p.ds_is_cast else 0)
    ds_error, p_error = U * (p.seqlen_q * p.group + p.seqlen_kv + 32) + casts[1], U * (p.seqlen_q * p.group + 32) + casts[0]
    in_ds = size_of["ds"] * ds_error + (0.0 if everything else ds)
    in_p = size_of["p"] * p_error + (0.0 if everything else p_bound)

    def over_group(values):
        return values if p.per_head else values.reshape(p.batch, p.heads_kv, p.group, *values.shape[2:]).sum(axis=2)

    sums = dict(dq=in_ds @ k * p.sm_scale, dk=over_group(in_ds.swapaxes(2, 3) @ q) * p.sm_scale,
                dv=over_group(in_p.swapaxes(2, 3) @ dout))
    outputs = {name: bound + 2 * rounding.rounding(size_of[name], p.dtype_o) for name, bound in sums.items()}
    return dict(q=0.0, k=0.0, v=0.0, dout=0.0, s=score, p=p_bound, delta=delta, dp=dp, ds=ds_bound, **outputs)


def unwritten(values):
    return values.view(np.uint32) == call.UNWRITTEN.view(np.uint32)


def wrong(stage, got, healthy, bound):
    """Elements that the mistake changed clearly. A tile that one of the two does not compute is not recorded, and none of
    it counts; an output that is not written does."""
    known = ~unwritten(healthy)
    if stage in call.ALL_TILES:
        known &= ~unwritten(got)
    finite = np.isfinite(got) & np.isfinite(healthy)
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(got.astype(np.float64) - healthy) > CLEAR * np.asarray(bound)
    same = (got == healthy) | (np.isnan(got) & np.isnan(healthy))
    return known & ~same & np.where(finite, far, True)


def running_maximum(p, s):
    """Of the scores that a row has met, after each KV tile: [B, H, Tkv, Sq]."""
    s = np.where(unwritten(s), -np.inf, s)
    tiles = [s[..., begin : begin + p.block_n].max(axis=-1) for begin in range(0, p.seqlen_kv, p.block_n)]
    order = range(len(tiles))[:: -1 if p.reverse else 1]
    found, top = [None] * len(tiles), None
    for t in order:
        starts = top is None or (p.split and t % p.split == 0)
        top = tiles[t] if starts else np.maximum(top, tiles[t])
        found[t] = top
    return np.stack(found, axis=2)


def legally_stale(p, got, healthy):
    """Where m is no further behind the running maximum than is declared, whatever a healthy kernel has there."""
    top, behind = running_maximum(p, healthy["s"]), call.call_numbers(p, p.scores.startswith("raw"))["STALE"]
    slack = 1e-6 * np.abs(top)
    with np.errstate(invalid="ignore"):
        return (got["m"] <= top + slack) & (got["m"] >= top - behind - slack)


def same_bits(stage, got, healthy):
    differs = got.view(np.uint32) != healthy.view(np.uint32)
    if stage in call.ALL_TILES:
        differs &= ~unwritten(got) & ~unwritten(healthy)
    return not differs.any()


def bounds(function, p, inputs, healthy, everything, direction):
    """The bounds of every stage of what the function, a kernel without the mistake, computed."""
    with np.errstate(invalid="ignore", over="ignore"):
        if direction == "backward":
            return backward_bounds(p, inputs, healthy, everything)
        return forward_bounds(p, inputs, healthy, magnitudes(function, p, inputs), everything)


@dataclasses.dataclass(frozen=True)
class Effect:
    stage: str  # the first recorded one that the mistake changes
    elements: int  # of it, changed beyond doubt
    compared: int


def first_effect(p, got, healthy, bounds, recorded):
    """The effect of a mistake, or the reason why it counts as none."""
    for stage in recorded:
        if same_bits(stage, got[stage], healthy[stage]):
            continue
        where = wrong(stage, got[stage], healthy[stage], bounds[stage])
        if stage == "m" and p.stale:
            where &= ~legally_stale(p, got, healthy)
        changed = int(where.sum())
        if changed >= LEAST:
            return Effect(stage, changed, int(healthy[stage].size))
        return "too few" if changed else "within rounding, or legal"
    return "nothing changed"
