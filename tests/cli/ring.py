"""Attention over ranks as NumPy computes it, recorded as dump/FORMAT.md says, with mistakes that can be planted.

A rank has `CHUNKS[layout]` of the sequence and takes the keys of one rank after the other: its own first. What it holds of a
step is a recording; what it has at the end is another one.
"""

import h5py
import numpy as np

SEQLEN, HEADS, HEADS_KV, HEAD_DIM, BLOCK = 96, 4, 2, 16, 16
SCALE = np.float32(0.25)
PREFIX = 8  # keys that every rank holds, where they are replicated


def positions_of(layout, rank, ranks):
    """Rows of the sequence that the rank has, ascending."""
    rows = np.arange(SEQLEN)
    if layout == "striped":
        return rows[rank::ranks]
    pieces = np.split(rows, 2 * ranks)
    if layout == "zigzag":
        return np.concatenate([pieces[rank], pieces[2 * ranks - 1 - rank]])
    return np.concatenate(pieces[2 * rank : 2 * rank + 2])


def text_of(positions):
    """FIRST+COUNT*STRIDE of each run of rows that are as far apart."""
    ranges = []
    for position in positions:
        last = ranges[-1] if ranges else None
        if last and len(last) == 1 and (len(ranges) > 1 or len(positions) < 2 or position - last[0] == positions[1] - positions[0]):
            last.append(position)
        elif last and len(last) > 1 and position - last[-1] == last[1] - last[0]:
            last.append(position)
        else:
            ranges.append([position])
    return ",".join(f"{r[0]}+{len(r)}" + (f"*{r[1] - r[0]}" if len(r) > 1 and r[1] - r[0] > 1 else "") for r in ranges)


def attend(q, k, v, visible):
    """o and lse of float32 operands [heads, rows, head_dim]; a row that sees nothing has 0 and -inf."""
    s = np.where(visible, (q @ k.swapaxes(1, 2)) * SCALE, np.float32(-np.inf)).astype(np.float32)
    m = s.max(axis=-1, initial=-np.inf, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(m), m, 0)).astype(np.float32)
    total = p.sum(axis=-1, keepdims=True)
    o = (p @ v) / np.where(total > 0, total, 1)
    with np.errstate(divide="ignore"):
        lse = (m + np.log(total))[..., 0]
    return s, o.astype(np.float32), lse.astype(np.float32)


def weights(a, b):
    lse = np.logaddexp(a, b)
    seen = np.isfinite(lse)
    wa = np.exp(a - np.where(seen, lse, 0), where=seen, out=np.zeros_like(lse))
    wb = np.exp(b - np.where(seen, lse, 0), where=seen, out=np.zeros_like(lse))
    return wa, wb, lse


def bf16(x):
    """Rounded to nearest even."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(x), rounded.view(np.float32), x).astype(np.float32)


def merge(a, b, fault, merged):
    """(o, lse) of both; `merged` steps went into the first."""
    if a is None:
        return (b[0], bf16(b[1])) if fault == "lse_in_bf16" else b
    (o_a, lse_a), (o_b, lse_b) = a, b
    wa, wb, lse = weights(lse_a, lse_b)
    both = np.isfinite(lse_a) & np.isfinite(lse_b)
    if fault == "merge_in_base_two":
        ln2 = np.float32(np.log(2))
        wa, wb, lse = weights(lse_a * ln2, lse_b * ln2)
        lse = lse / ln2
    elif fault == "merge_without_rescaling":
        wa = np.where(both, 1, wa)
    elif fault == "merge_without_weights":
        wa, wb = np.where(both, 1, wa), np.where(both, 1, wb)
    elif fault == "merge_takes_mean":
        wa, wb = np.where(both, merged / (merged + 1), wa), np.where(both, 1 / (merged + 1), wb)
    elif fault == "lse_in_bf16":
        wa, wb, lse = weights(bf16(lse_a), bf16(lse_b))
        lse = bf16(lse)
    return (wa[..., None] * o_a + wb[..., None] * o_b).astype(np.float32), lse.astype(np.float32)


class Ring:
    def __init__(self, folder, ranks=2, layout="contiguous", causal=True, fault=None, seed=7, merged=True, run="ring",
                 empty_lse=-np.inf, own_last=False):
        self.folder, self.ranks, self.layout, self.causal = folder, ranks, layout, causal
        self.fault, self.keep_merged, self.run = fault, merged, run
        self.empty_lse, self.own_last = empty_lse, own_last
        rng = np.random.default_rng(seed)
        self.q = rng.standard_normal((HEADS, SEQLEN, HEAD_DIM)).astype(np.float16)
        self.k, self.v = rng.standard_normal((2, HEADS_KV, SEQLEN, HEAD_DIM)).astype(np.float16)

    def keys_of(self, rank):
        keys = positions_of(self.layout, rank, self.ranks)
        if self.fault == "replicated_keys_counted_again":
            keys = np.union1d(np.arange(PREFIX), keys)
        return keys

    def record(self, at=1):
        """Writes the recordings of all ranks; the fault is made by rank `at`."""
        for rank in range(self.ranks):
            self.record_rank(rank, self.fault if rank == at else None)

    def record_rank(self, rank, fault):
        rows = positions_of(self.layout, rank, self.ranks)
        state, step, held = None, 0, None
        sources = [(rank - i) % self.ranks for i in range(self.ranks)]
        if self.own_last:
            sources.reverse()
        if fault == "keys_left_out":
            sources = sources[:-1]
        if fault == "keys_taken_twice":
            sources.append(sources[-1])
        for source in sources:
            keys = self.keys_of(source)
            if self.causal and self.layout == "contiguous" and keys[0] > rows[-1]:
                continue  # nothing of it is seen
            if fault == "local_positions_of_half" and step > 0:
                keys = keys[: len(keys) // 2]  # the rest is not seen
            k, v = self.k[:, keys], self.v[:, keys]
            if step > 0 and fault == "stale_shard":
                k, v = held
            if step > 0 and fault == "wrong_shard":
                other = self.keys_of((source - 1) % self.ranks)
                k, v = self.k[:, other], self.v[:, other]
            if step > 0 and fault == "transfer_incomplete":
                half = len(keys) // 2
                k = np.concatenate([k[:, :half], held[0][:, half:]], axis=1)
            if step > 0 and fault == "heads_not_sent":
                k = np.concatenate([k[:1], held[0][1:]])
            if step > 0 and fault == "wrong_rows_of_shard":
                half = len(keys) // 2
                k, v = (np.concatenate([x[:, half:], x[:, :half]], axis=1) for x in (k, v))
            held = (k, v)
            visible = keys <= rows[:, None] if self.causal else np.ones((len(rows), len(keys)), bool)
            if (fault or "").startswith("local_positions") and step > 0:
                visible = np.arange(len(keys)) <= np.arange(len(rows))[:, None]
            group = HEADS // HEADS_KV
            k32, v32 = (np.repeat(x.astype(np.float32), group, axis=0) for x in (k, v))
            s, o, lse = attend(self.q[:, rows].astype(np.float32), k32, v32, visible)
            o = o.astype(np.float16)
            state = merge(state, (o.astype(np.float32), lse), fault, step)
            self.write(f"rank{rank}_step{step}.h5", rank, step, "step", rows, keys, s=s, o=o, lse=lse, k=k, v=v, merged=state)
            step += 1
        self.write(f"rank{rank}_final.h5", rank, 0, "final", rows, None, o=state[0].astype(np.float16), lse=state[1])

    def write_owned(self, rank):
        rows, keys = positions_of(self.layout, rank, self.ranks), self.keys_of(rank)
        self.write(f"rank{rank}_owned.h5", rank, 0, "owned", rows, keys, k=self.k[:, keys], v=self.v[:, keys])

    def marked(self, lse):
        """With what the kernel stores where nothing is seen."""
        return np.where(np.isneginf(lse), np.float32(self.empty_lse), lse)

    def write(self, name, rank, step, kind, rows, keys, s=None, o=None, lse=None, k=None, v=None, merged=None):
        with h5py.File(self.folder / name, "w") as f:
            f.attrs.update(format="tilescope", format_version=1, kernel="ring", run=self.run)
            seqlen_kv = SEQLEN if keys is None else len(keys)
            problem = f.create_group("problem").attrs
            problem.update(
                batch=1, heads=HEADS, heads_kv=HEADS_KV, seqlen_q=len(rows), seqlen_kv=seqlen_kv, head_dim=HEAD_DIM,
                block_m=BLOCK, block_n=BLOCK, sm_scale=float(SCALE), mask="causal" if self.causal else "none",
                ranks=self.ranks, rank=rank, step=step, shard=kind, whole_seqlen_q=SEQLEN, whole_seqlen_kv=SEQLEN,
                q_positions=text_of(rows), kv_positions="" if keys is None else text_of(keys))  # fmt: skip
            if k is not None:
                f["inputs/q"], f["inputs/k"], f["inputs/v"] = self.q[None, :, rows], k[None], v[None]
            if s is not None:
                f["tiles/s"] = s[None]
            if merged is not None and self.keep_merged:
                problem["named_tiles"] = "merged_o,merged_lse"
                for stage, values, cols in (("merged_o", merged[0], "feature"), ("merged_lse", self.marked(merged[1]), "unit")):
                    f[f"tiles/{stage}"] = values[None]
                    f[f"tiles/{stage}"].attrs.update(rows="query", cols=cols, per_kv_tile=False)
                f["tiles/merged_o"].attrs["col_size"] = HEAD_DIM
            if o is not None:
                f["outputs/o"], f["outputs/lse"] = o[None], self.marked(lse)[None]
                f["outputs/lse"].attrs["empty_row"] = "inf" if self.empty_lse > 0 else "-inf"
            f.attrs["complete"] = 1


class SplitKv(Ring):
    """Every rank has all rows and some of the keys; partial outputs go from rank to rank, in place of keys.

    Each rank merges those of all, or, as a tree, rank 0 what rank 1 has and what rank 2 has merged with that of rank 3.
    """

    def __init__(self, folder, ranks=3, tree=False, fault=None, seed=7, run="split"):
        super().__init__(folder, 4 if tree else ranks, "contiguous", causal=False, fault=fault, seed=seed, run=run)
        self.tree = tree

    def record(self, at=1):
        self.rows = np.arange(SEQLEN)
        self.partial = {}
        self.state = {}
        self.steps = dict.fromkeys(range(self.ranks), 0)
        for rank in range(self.ranks):
            self.launch(rank)
        for rank, sources in {2: [(3, False)], 0: [(1, False), (2, True)]}.items() if self.tree else self.to_all():
            for source, merged in sources:
                self.receive(rank, source, merged, self.fault if rank == (0 if self.tree else at) else None)
        for rank in [0] if self.tree else range(self.ranks):
            o, lse = self.state[rank]
            self.write(f"rank{rank}_final.h5", rank, 0, "final", self.rows, None, o=o.astype(np.float16), lse=lse)

    def to_all(self):
        return [(rank, [(other, False) for other in range(self.ranks) if other != rank]) for rank in range(self.ranks)]

    def launch(self, rank):
        keys = self.keys_of(rank)
        k, v = self.k[:, keys], self.v[:, keys]
        k32, v32 = (np.repeat(x.astype(np.float32), HEADS // HEADS_KV, axis=0) for x in (k, v))
        s, o, lse = attend(self.q.astype(np.float32), k32, v32, np.ones((SEQLEN, len(keys)), bool))
        o = o.astype(np.float16)
        self.partial[rank] = o, lse, keys
        self.state[rank] = o.astype(np.float32), lse
        self.write(f"rank{rank}_step0.h5", rank, 0, "step", self.rows, keys, s=s, o=o, lse=lse, k=k, v=v, merged=self.state[rank])

    def receive(self, rank, source, merged, fault):
        o, lse, keys = self.partial[source]
        if merged:
            (o, lse), keys = self.state[source], np.concatenate([keys, self.partial[source + 1][2]])
        if fault == "wrong_partial" and self.steps[rank] > 0:
            o, lse = self.sent_before
        if fault == "lse_in_bf16":
            lse = bf16(lse)
        self.sent_before = o, lse
        self.steps[rank] += 1
        self.state[rank] = merge(self.state[rank], (o.astype(np.float32), lse), fault if fault != "lse_in_bf16" else None, self.steps[rank])
        self.write(f"rank{rank}_step{self.steps[rank]}.h5", rank, self.steps[rank], "received", self.rows, keys, o=o, lse=lse,
                   merged=self.state[rank])
