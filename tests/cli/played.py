"""Attention played in NumPy, KV tile by KV tile, and written with h5py after dump/FORMAT.md.

play() computes the right kernel; each of its arguments is one step of it that a caller may take otherwise.
"""

import dataclasses

import h5py
import numpy as np

F32 = np.float32
LOG2E = F32(np.log2(np.e))


@dataclasses.dataclass
class Call:
    """Sizes as /problem has them, and what else the call reads."""

    batch: int = 1
    heads: int = 4
    heads_kv: int = 2
    seqlen_q: int = 32
    seqlen_kv: int = 80
    head_dim: int = 32
    block_m: int = 16
    block_n: int = 16
    causal: bool = True
    soft_cap: float = 0
    tiles_per_split: int = 0
    sink: np.ndarray | None = None  # [heads], "first"
    bias: np.ndarray | None = None  # [B, H, Sq, Skv], each also 1
    lengths: np.ndarray | None = None  # of keys, [B]
    descale_k: np.ndarray | None = None  # [B, Hkv], or a column for each block of descale_rows keys; codes are then e4m3
    descale_rows: int = 0
    seed: int = 1
    size: float = 1  # of the elements of q and k

    def __post_init__(self):
        rng = np.random.default_rng(self.seed)
        kv = (self.batch, self.heads_kv, self.seqlen_kv, self.head_dim)
        self.q = self.size * rng.standard_normal((self.batch, self.heads, self.seqlen_q, self.head_dim))
        self.k, self.v = self.size * rng.standard_normal(kv), rng.standard_normal(kv)
        self.q, self.k, self.v = (self.rounded(x) for x in (self.q, self.k, self.v))

    def rounded(self, x):
        return e4m3(x) if self.descale_k is not None else x.astype(np.float16)

    @property
    def scale(self):
        return F32(1 / np.sqrt(self.head_dim))

    def tiles(self):
        return [slice(t, min(t + self.block_n, self.seqlen_kv)) for t in range(0, self.seqlen_kv, self.block_n)]

    def of_heads(self, x):
        """What query heads read of an array of KV heads."""
        return np.repeat(x, self.heads // self.heads_kv, axis=1)

    def visible(self):
        """[B, 1, Sq, Skv]"""
        lengths = np.full(self.batch, self.seqlen_kv) if self.lengths is None else self.lengths
        key = np.arange(self.seqlen_kv)
        row = np.arange(self.seqlen_q)[:, None]
        seen = np.broadcast_to(key < lengths[:, None, None, None], (self.batch, 1, self.seqlen_q, self.seqlen_kv))
        diagonal = (lengths - self.seqlen_q)[:, None, None, None]
        return seen & (key <= row + diagonal) if self.causal else seen

    def key_descales(self):
        """[B, Hkv, Skv]"""
        shape = (self.batch, self.heads_kv, self.seqlen_kv)
        if self.descale_k is None:
            return np.ones(shape, F32)
        if self.descale_rows:
            return np.repeat(self.descale_k, self.descale_rows, axis=2)[..., :self.seqlen_kv]
        return np.broadcast_to(self.descale_k[..., None], shape)


def e4m3(x):
    """The nearest numbers of e4m3, of x within its range."""
    exponent = np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-20))), -6)
    return (np.round(x / 2.0 ** (exponent - 3)) * 2.0 ** (exponent - 3)).astype(F32)


def merged(lse, o):
    """The splits' outputs, [split, ...], as one; a split that saw no key weighs nothing."""
    top = lse.max(axis=0)
    weight = np.exp(lse - np.where(np.isneginf(top), 0, top))
    return top + np.log(weight.sum(axis=0)), (weight[..., None] * o).sum(axis=0) / weight.sum(axis=0)[..., None]


def capped(call, s):
    return F32(call.soft_cap) * np.tanh(s / F32(call.soft_cap)) if call.soft_cap else s


def play(call, *, scale=None, key_descales=None, cap=capped, bias=None, visible=None, first_max=-np.inf, subtracted=None,
         guard=True, sink_splits=(0,), merge=merged, stored=lambda o: o):
    """All stages, as datasets have them."""
    with np.errstate(all="ignore"):
        s = scores_of(call, scale, key_descales, cap, bias, visible)
        return stages_of(call, s, first_max, subtracted, guard, sink_splits, merge, stored)


def scores_of(call, scale, key_descales, cap, bias, visible):
    descales = call.key_descales() if key_descales is None else key_descales
    raw = call.q.astype(F32) @ call.of_heads(call.k.astype(F32) * descales[..., None]).swapaxes(2, 3)
    s = cap(call, raw * (call.scale if scale is None else F32(scale)))
    bias = call.bias if bias is None else bias
    s = s if bias is None else s + bias
    return np.where(call.visible() if visible is None else visible, s, -np.inf).astype(F32)


def stages_of(call, s, first_max, subtracted, guard, sink_splits, merge, stored):
    v = call.of_heads(call.v.astype(F32))
    rows = s.shape[:3]
    p = np.zeros_like(s)
    m, l, acc, split_lse, split_o = [], [], [], [], []
    for t, keys in enumerate(call.tiles()):
        split = t // call.tiles_per_split if call.tiles_per_split else 0
        if t == 0 or (call.tiles_per_split and t % call.tiles_per_split == 0):
            with_sink = call.sink is not None and split in sink_splits
            row_max = np.broadcast_to(call.sink[:, None] if with_sink else F32(first_max), rows).astype(F32)
            row_sum = np.full(rows, with_sink, F32)
            out = np.zeros((*rows, call.head_dim), F32)
        new_max = np.maximum(row_max, s[..., keys].max(axis=-1))
        base = np.where(np.isneginf(new_max), 0, new_max) if guard else new_max
        rescale = np.exp((row_max - base).astype(float)).astype(F32)
        used = base if subtracted is None else subtracted(base, s[..., keys])
        p[..., keys] = np.exp((s[..., keys] - used.reshape(*rows, -1)).astype(float))
        row_sum = row_sum * rescale + p[..., keys].sum(axis=-1)
        out = out * rescale[..., None] + p[..., keys].astype(np.float16).astype(F32) @ v[..., keys, :]
        row_max = new_max
        m.append(row_max), l.append(row_sum), acc.append(out)
        if keys.stop == call.seqlen_kv or (call.tiles_per_split and (t + 1) % call.tiles_per_split == 0):
            split_lse.append(row_max + np.log(row_sum.astype(float)))
            split_o.append(out / np.where(row_sum == 0, 1, row_sum)[..., None] if guard else out / row_sum[..., None])
    lse, o = merge(np.stack(split_lse), np.stack(split_o)) if call.tiles_per_split else (split_lse[0], split_o[0])
    o = stored(np.where(np.isneginf(lse)[..., None], 0, o) if guard else o)
    return {"tiles/s": s, "tiles/m": np.stack(m, axis=2), "tiles/p": p, "tiles/l": np.stack(l, axis=2),
            "tiles/acc": np.stack(acc, axis=2), "outputs/o": o.astype(np.float16), "outputs/lse": lse.astype(F32)}


def write(path, call, stages, outputs_alone=False, **units):
    """`units`: attributes of datasets, as s={"scaled": False}."""
    with h5py.File(path, "w") as file:
        file.attrs.update(format="tilescope", format_version=1, kernel="played")
        problem = file.create_group("problem").attrs
        for name in ("batch", "heads", "heads_kv", "seqlen_q", "seqlen_kv", "head_dim", "block_m", "block_n"):
            problem[name] = getattr(call, name)
        problem.update(sm_scale=call.scale, mask="causal" if call.causal else "none", logits_soft_cap=call.soft_cap,
                       kv_tiles_per_split=call.tiles_per_split, dtype_p="f16")
        if call.descale_k is not None:
            problem.update(dtype_q="e4m3", dtype_k="e4m3", dtype_v="e4m3")
            file["inputs/descale_k"] = call.descale_k
            if call.descale_rows:
                file["inputs/descale_k"].attrs["rows"] = call.descale_rows
        for name, value in (("sink", call.sink), ("bias", call.bias), ("seqlens_kv", call.lengths)):
            if value is not None:
                file[f"inputs/{name}"] = value
        if call.sink is not None:
            problem["sink"] = "first"
        for name in "qkv":
            file[f"inputs/{name}"] = getattr(call, name)
        if "inputs/dout" in stages:
            problem.update(direction="backward", dtype_ds="f16")
        for name, value in stages.items():
            if not (outputs_alone and name.startswith("tiles/")):
                file[name] = value
        for stage, attributes in units.items():
            if stage == "k":  # which is not recorded
                shape = (call.batch, call.heads, -(-call.seqlen_q // call.block_m), call.seqlen_kv, call.head_dim)
                file.create_dataset("tiles/k", shape, F32, chunks=(1, 1, 1, call.block_n, call.head_dim))
            file[f"tiles/{stage}"].attrs.update(attributes)
        file.attrs["complete"] = 1
    return path


def play_backward(call, *, heads_of=None):
    """All stages of the backward pass; `heads_of(j)`: query heads whose products dk and dv of KV head j add up."""
    group = call.heads // call.heads_kv
    heads_of = heads_of or (lambda j: range(j * group, (j + 1) * group))
    forward = play(call)
    o, lse = forward["outputs/o"], forward["outputs/lse"]
    q, k, v = call.q.astype(F32), call.of_heads(call.k.astype(F32)), call.of_heads(call.v.astype(F32))
    dout = np.random.default_rng(call.seed + 1).standard_normal(o.shape).astype(np.float16)
    s = forward["tiles/s"]
    p = np.exp((s - lse[..., None]).astype(float)).astype(F32)
    delta = (dout.astype(F32) * o.astype(F32)).sum(axis=-1)
    dp = dout.astype(F32) @ v.swapaxes(2, 3)
    ds = p * (dp - delta[..., None])
    cast_ds, cast_p = (x.astype(np.float16).astype(F32) for x in (ds, p))
    of_query_head = {"dk": cast_ds.swapaxes(2, 3) @ q * call.scale, "dv": cast_p.swapaxes(2, 3) @ dout.astype(F32)}
    gradients = {name: np.stack([sum(x[:, h] for h in heads_of(j)) for j in range(call.heads_kv)], axis=1)
                 for name, x in of_query_head.items()}
    gradients["dq"] = cast_ds @ k * call.scale
    return {"inputs/dout": dout, "inputs/o": o, "inputs/lse": lse, "tiles/s": s, "tiles/p": p, "tiles/delta": delta,
            "tiles/dp": dp, "tiles/ds": ds, **{f"outputs/{name}": x.astype(np.float16) for name, x in gradients.items()}}
