"""What a kernel is run on: sizes, the variation of attention that it computes, and inputs that expose mistakes."""

import dataclasses
import math

import numpy as np

from strangers import rounding

LOG2E, LN2 = math.log2(math.e), math.log(2)


@dataclasses.dataclass(frozen=True)
class Problem:
    """Sizes of a call, and what its kernel does in its own, legal way."""

    seed: int  # of the inputs and of what lies around them
    batch: int
    heads_kv: int
    group: int
    seqlen_q: int
    seqlen_kv: int
    head_dim: int
    head_dim_v: int
    block_m: int
    block_n: int
    pads: tuple  # of the rows of q, k, v and p in shared memory
    dtype: str  # of q, k and v
    dtype_o: str
    mask: str  # "none", "top_left" or "bottom_right"
    window: tuple  # left and right, -1: no limit
    scores: str  # "natural", "base2", or not scaled: "raw" with expf, "raw2" with exp2f
    sm_scale: float
    cap: float = 0.0
    alibi: bool = False
    dtype_p: str = "f32"
    p_scale: float = 1.0
    p_is_cast: bool = False  # recorded after its cast
    sums_cast_p: bool = False
    dtype_acc: str = "f32"
    lanes: int = 1
    lane_columns: int = 1
    stale: float = 0.0
    reverse: bool = False
    split: int = 0
    skips: bool = True  # tiles that no row sees are not computed
    lse_base2: bool = False
    ramped: bool = True  # keys grow along the sequence, so that the maximum rises
    around: str = "numbers"  # what lies where nothing was written: "numbers" or "nan"
    per_head: bool = False  # backward: dk and dv of each query head
    dtype_ds: str = "f32"
    ds_is_cast: bool = False

    @property
    def heads(self):
        return self.heads_kv * self.group

    @property
    def diagonal(self):
        return self.seqlen_kv - self.seqlen_q if self.mask != "top_left" else 0


def pick(rng, *choices):
    return choices[int(rng.integers(len(choices)))]


def chance(rng, probability):
    return bool(rng.random() < probability)


def draw_shape(rng):
    """Sizes that change from call to call of one kernel; long sequences have few heads."""
    group = pick(rng, 1, 1, 2, 2, 3, 4)
    return dict(batch=pick(rng, 1, 1, 2), heads_kv=pick(rng, 1, 2) if group > 1 else pick(rng, 1, 2, 3), group=group,
                seqlen_q=int(rng.integers(24, 97)), seqlen_kv=int(rng.integers(24, 97)), seed=int(rng.integers(1 << 31)))


def draw_numbers(rng, backward):
    """The number types, and what follows from them."""
    dtype = pick(rng, "f16", "f16", "bf16", "e4m3")
    dtype_p = pick(rng, "f32", dtype, dtype)
    stale = 0.0 if backward else pick(rng, 0.0, 0.0, 0.0, 4.0)
    drawn = dict(dtype=dtype, dtype_o=pick(rng, "f16", "f16", "f32", "bf16"), dtype_p=dtype_p, stale=stale)
    if dtype_p != "f32":
        drawn.update(p_is_cast=chance(rng, 0.6), sums_cast_p=not backward and chance(rng, 0.3))
    if dtype_p == "e4m3" and not backward and stale == 0 and chance(rng, 0.5):
        drawn.update(p_scale=256.0)
    if not backward and chance(rng, 0.1):
        drawn.update(dtype_acc="f16")
    if backward and dtype in ("f16", "bf16"):
        drawn.update(dtype_ds=pick(rng, "f32", dtype), ds_is_cast=chance(rng, 0.5))
    return drawn


def draw(rng, backward=False):
    """A problem with a legal variation of each kind, some of them at once."""
    mask = pick(rng, "none", "none", "top_left", "bottom_right", "bottom_right")
    left, right = int(rng.integers(8, 48)), int(rng.integers(0, 32))
    window = pick(rng, (-1, -1), (-1, -1), (-1, -1), (left, right if mask == "none" else -1))
    head_dim = pick(rng, 16, 16, 32, 32, 40, 64)
    scores = pick(rng, "natural", "natural", "base2", "raw", "raw2")
    drawn = dict(
        draw_shape(rng), head_dim=head_dim, head_dim_v=pick(rng, head_dim, head_dim, head_dim, 24),
        block_m=pick(rng, 16, 32), block_n=pick(rng, 16, 32), pads=tuple(int(pad) for pad in rng.integers(0, 9, 4)),
        mask=mask, window=window, scores=scores, sm_scale=float(np.float32(pick(rng, 1, 1, 1, 0.75) / math.sqrt(head_dim))),
        skips=chance(rng, 0.7), lse_base2=chance(rng, 0.2), ramped=chance(rng, 0.6),
        around=pick(rng, "numbers", "numbers", "numbers", "nan"), **draw_numbers(rng, backward))
    if scores in ("natural", "base2") and not backward:
        drawn.update(cap=pick(rng, 0.0, 0.0, 0.0, 5.0), alibi=chance(rng, 0.2))
    if backward:
        return Problem(**drawn, per_head=chance(rng, 0.3))
    if chance(rng, 0.3):
        drawn.update(split=pick(rng, 1, 2))
    elif chance(rng, 0.2):
        drawn.update(reverse=True)
    if chance(rng, 0.25):
        drawn.update(lanes=pick(rng, 4, 8), lane_columns=pick(rng, 1, 2))
    return Problem(**drawn)


def on_another_shape(problem, rng):
    """The same kernel, called with other sizes and numbers."""
    return dataclasses.replace(problem, **draw_shape(rng))


def misdeclare(p, rng, backward=False):
    """The problem as somebody declares it who is wrong in one thing: a unit, a type, an order. Another mask, scale or cap
    is not drawn: a mistaken kernel of the declared problem computes just that, and nobody could tell."""
    other_type = {"f32": "f16", "f16": "bf16", "bf16": "f16", "e4m3": "f16"}
    wrong = [("scores", {"natural": "base2", "base2": "natural", "raw": "natural", "raw2": "base2"}[p.scores]),
             ("dtype_o", other_type[p.dtype_o]), ("lse_base2", not p.lse_base2), ("dtype_p", other_type[p.dtype_p])]
    if p.dtype_p != "f32":
        wrong += [("p_is_cast", not p.p_is_cast)]
    if backward:
        wrong += [("dtype_ds", other_type[p.dtype_ds]), ("ds_is_cast", not p.ds_is_cast)]
        wrong = [each for each in wrong if each[0] != "dtype_o"]  # o is read there
        return dataclasses.replace(p, **dict([pick(rng, *wrong)]))
    wrong += [("split", 0 if p.split else 1), ("stale", 0.0 if p.stale else 4.0), ("reverse", not p.reverse),
              ("dtype_acc", "f16" if p.dtype_acc == "f32" else "f32")]
    if p.dtype_p != "f32":
        wrong += [("sums_cast_p", not p.sums_cast_p)]
    if p.p_scale != 1:
        wrong += [("p_scale", 1.0)]
    if p.lanes > 1:
        wrong += [("lane_columns", 3 - p.lane_columns)]
    return dataclasses.replace(p, **dict([pick(rng, *wrong)]))


def draw_inputs(problem, backward=False):
    """q, k and v (and dout) as float32 that the type holds, distinct by head; slopes of ALiBi."""
    rng = np.random.default_rng(problem.seed)
    b, h, g = problem.batch, problem.heads, problem.heads_kv
    q = rng.standard_normal((b, h, problem.seqlen_q, problem.head_dim))
    k = rng.standard_normal((b, g, problem.seqlen_kv, problem.head_dim))
    if problem.ramped:
        k *= np.linspace(0.4, 1.6, problem.seqlen_kv)[:, None]
    v = rng.standard_normal((b, g, problem.seqlen_kv, problem.head_dim_v))
    v += rng.uniform(-1, 1, (b, g, 1, problem.head_dim_v))
    inputs = {name: rounding.narrow(values, problem.dtype) for name, values in dict(q=q, k=k, v=v).items()}
    inputs["slopes"] = (2.0 ** -rng.uniform(2, 6, h)).astype(np.float32)
    if backward:
        dout = rng.standard_normal((b, h, problem.seqlen_q, problem.head_dim_v))
        inputs["dout"] = rounding.narrow(dout, problem.dtype)
        inputs |= forward_outputs(problem, inputs)
    return inputs


def forward_outputs(p, inputs):
    """o and lse as a forward kernel stored them, which the backward pass reads."""
    q, k, v = (inputs[name].astype(np.float64) for name in ("q", "k", "v"))
    k, v = np.repeat(k, p.group, axis=1), np.repeat(v, p.group, axis=1)
    rows, keys = np.arange(p.seqlen_q)[:, None] + p.diagonal, np.arange(p.seqlen_kv)
    left, right = p.window
    sees = (keys <= rows) | (p.mask == "none")
    sees &= (left < 0) | (keys >= rows - left)
    sees &= (right < 0) | (keys <= rows + right)
    s = np.where(sees, q @ k.swapaxes(2, 3) * p.sm_scale, -np.inf)
    top = s.max(axis=-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (top + np.log(total))[..., 0] * (LOG2E if p.lse_base2 else 1)
    return dict(o=rounding.narrow(e @ v / np.maximum(total, 1e-30), p.dtype_o), lse=lse.astype(np.float32))
