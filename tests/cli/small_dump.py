"""A small conforming dump with every stage, written with h5py after dump/FORMAT.md, and a way to spoil it."""

import h5py
import numpy as np

B, H, HKV, SQ, SKV, D, BLOCK_M, BLOCK_N = 1, 4, 2, 24, 40, 16, 16, 16
SCALE = np.float32(0.25)
STAGES = ["q", "k", "v", "s", "m", "p", "l", "acc", "o", "lse"]
DATASETS = {stage: f"{'outputs' if stage in ('o', 'lse') else 'tiles'}/{stage}" for stage in STAGES}
KV_TILES = [slice(t, min(t + BLOCK_N, SKV)) for t in range(0, SKV, BLOCK_N)]
UNWRITTEN = np.array(0x7FD17E5C, np.uint32).view(np.float32)


def inputs(seed=7):
    rng = np.random.default_rng(seed)
    shapes = {"q": (B, H, SQ, D), "k": (B, HKV, SKV, D), "v": (B, HKV, SKV, D)}
    return {name: rng.standard_normal(shape).astype(np.float16) for name, shape in shapes.items()}


def stages(given, p_factor=1):
    """What a kernel computes in float32; `p_factor` is a mistake in P that everything after it inherits."""
    q = given["q"].astype(np.float32)
    k, v = (np.repeat(given[name].astype(np.float32), H // HKV, axis=1) for name in "kv")
    s = (q @ k.swapaxes(2, 3)) * SCALE
    rows = (B, H, SQ)
    row_max, row_sum = np.full(rows, -np.inf, np.float32), np.zeros(rows, np.float32)
    out = np.zeros((*rows, D), np.float32)
    p = np.empty_like(s)
    m, l, acc = [], [], []
    for keys in KV_TILES:
        new_max = np.maximum(row_max, s[..., keys].max(axis=-1))
        rescale = np.exp((row_max - new_max).astype(np.float64)).astype(np.float32)
        exact = np.exp((s[..., keys] - new_max[..., None]).astype(np.float64))
        p[..., keys] = (p_factor * exact).astype(np.float32)
        row_sum = row_sum * rescale + p[..., keys].sum(axis=-1)
        out = out * rescale[..., None] + p[..., keys] @ v[..., keys, :]
        row_max = new_max
        m.append(row_max)
        l.append(row_sum)
        acc.append(out)
    q_blocks = -(-SQ // BLOCK_M)
    return {
        "q": q,
        "k": np.repeat(k[:, :, None], q_blocks, axis=2),
        "v": np.repeat(v[:, :, None], q_blocks, axis=2),
        "s": s,
        "m": np.stack(m, axis=2),
        "p": p,
        "l": np.stack(l, axis=2),
        "acc": np.stack(acc, axis=2),
        "o": (out / row_sum[..., None]).astype(np.float16),
        "lse": row_max + np.log(row_sum.astype(np.float64)).astype(np.float32),
    }


CHUNKS = {
    "q": (1, 1, BLOCK_M, D),
    "k": (1, 1, 1, BLOCK_N, D),
    "v": (1, 1, 1, BLOCK_N, D),
    "s": (1, 1, BLOCK_M, BLOCK_N),
    "m": (1, 1, 1, BLOCK_M),
    "p": (1, 1, BLOCK_M, BLOCK_N),
    "l": (1, 1, 1, BLOCK_M),
    "acc": (1, 1, 1, BLOCK_M, D),
    "o": (1, 1, BLOCK_M, D),
    "lse": (1, 1, BLOCK_M),
}


def write(path, values=None, given=None, only=STAGES):
    """Writes the stages named in `only`; `values` replaces what was computed."""
    given = given or inputs()
    values = {**stages(given), **(values or {})}
    with h5py.File(path, "w") as f:
        f.attrs.update(format="tilescope", format_version=1, producer="small_dump.py", kernel="numpy")
        f.create_group("problem").attrs.update(
            batch=B, heads=H, heads_kv=HKV, seqlen_q=SQ, seqlen_kv=SKV, head_dim=D,
            block_m=BLOCK_M, block_n=BLOCK_N, sm_scale=SCALE)
        for name, value in given.items():
            f[f"inputs/{name}"] = value
        for stage in only:
            f.create_dataset(DATASETS[stage], data=values[stage], chunks=CHUNKS[stage])
        f.attrs["complete"] = 1
    return path
