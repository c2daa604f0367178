"""Flash attention in Triton, forward and backward, with stores of its tiles and mistakes to plant.

Arrays are contiguous [batch, heads, seqlen, head_dim]; causal rows see keys up to their own number. The lines that
begin with ts. are all that tilescope adds: with ts.dump_of(None) nothing of them is compiled.
"""

import math

import torch
import triton
import triton.language as tl
from tilescope import triton as ts

FORWARD_MISTAKES = {
    "l_not_rescaled": "l",
    "acc_not_rescaled": "acc",
    "diagonal_one_right": "s",
    "scale_of_half": "s",
    "tail_not_masked": "l",
    "first_tile_twice": "s",
}
BACKWARD_MISTAKES = {"delta_left_out": "ds", "ds_not_scaled": "dk", "v_not_transposed": "dp"}


@triton.jit
def forward_kernel(q, k, v, o, lse, sm_scale, heads, group, seqlen_q, seqlen_kv, dump, HEAD_DIM: tl.constexpr,
                   BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
                   MISTAKE: tl.constexpr):  # fmt: skip
    q_block = tl.program_id(0)
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    head_kv = batch * (heads // group) + head // group
    rows = q_block * BLOCK_M + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD_DIM)
    q_at = tl.program_id(1).to(tl.int64) * seqlen_q * HEAD_DIM + rows[:, None] * HEAD_DIM + dims[None, :]
    q_tile = tl.load(q + q_at, mask=rows[:, None] < seqlen_q, other=0.0)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    end = seqlen_kv
    if CAUSAL:
        end = min(seqlen_kv, (q_block + 1) * BLOCK_M)
    if MISTAKE == "scale_of_half":
        sm_scale = sm_scale * 0.5
    for kv_tile in range(0, tl.cdiv(end, BLOCK_N)):
        keys = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
        loaded = keys
        if MISTAKE == "first_tile_twice":
            loaded = tl.where(kv_tile == 1, keys - BLOCK_N, keys)
        kv_at = head_kv.to(tl.int64) * seqlen_kv * HEAD_DIM + loaded[:, None] * HEAD_DIM + dims[None, :]
        k_tile = tl.load(k + kv_at, mask=keys[:, None] < seqlen_kv, other=0.0)
        s = tl.dot(q_tile, tl.trans(k_tile)) * sm_scale
        seen = rows[:, None] >= 0
        if MISTAKE != "tail_not_masked":
            seen = seen & (keys[None, :] < seqlen_kv)
        if CAUSAL:
            diagonal = rows
            if MISTAKE == "diagonal_one_right":
                diagonal = rows + 1
            seen = seen & (keys[None, :] <= diagonal[:, None])
        s = tl.where(seen, s, float("-inf"))
        ts.store_tile(dump.s, batch, head, q_block, kv_tile, s)
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha = tl.exp(m - m_new)
        p = tl.exp(s - m_new[:, None])
        ts.store_rows(dump.m, batch, head, q_block, kv_tile, m_new)
        ts.store_tile(dump.p, batch, head, q_block, kv_tile, p)
        if MISTAKE != "l_not_rescaled":
            l = l * alpha
        l += tl.sum(p, 1)
        ts.store_rows(dump.l, batch, head, q_block, kv_tile, l)
        if MISTAKE != "acc_not_rescaled":
            acc = acc * alpha[:, None]
        v_tile = tl.load(v + kv_at, mask=keys[:, None] < seqlen_kv, other=0.0)
        acc = tl.dot(p.to(v_tile.dtype), v_tile, acc)
        ts.store_tile(dump.acc, batch, head, q_block, kv_tile, acc)
        m = m_new
    tl.store(o + q_at, (acc / l[:, None]).to(q_tile.dtype), mask=rows[:, None] < seqlen_q)
    tl.store(lse + tl.program_id(1).to(tl.int64) * seqlen_q + rows, m + tl.log(l), mask=rows < seqlen_q)


@triton.jit
def dkv_kernel(q, k, v, dout, lse, delta, dk, dv, sm_scale, heads, group, seqlen_q, seqlen_kv, dump,
               HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
               MISTAKE: tl.constexpr):  # fmt: skip
    """dk and dv of each query head: those of a group are added up by the caller."""
    kv_tile = tl.program_id(0)
    batch = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    head_kv = batch * (heads // group) + head // group
    keys = kv_tile * BLOCK_N + tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD_DIM)
    kv_at = head_kv.to(tl.int64) * seqlen_kv * HEAD_DIM + keys[:, None] * HEAD_DIM + dims[None, :]
    k_tile = tl.load(k + kv_at, mask=keys[:, None] < seqlen_kv, other=0.0)
    v_tile = tl.load(v + kv_at, mask=keys[:, None] < seqlen_kv, other=0.0)
    dk_acc = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    dv_acc = tl.zeros([BLOCK_N, HEAD_DIM], tl.float32)
    first = 0
    if CAUSAL:
        first = kv_tile * BLOCK_N // BLOCK_M
    for q_block in range(first, tl.cdiv(seqlen_q, BLOCK_M)):
        rows = q_block * BLOCK_M + tl.arange(0, BLOCK_M)
        row_at = tl.program_id(1).to(tl.int64) * seqlen_q + rows
        q_at = row_at[:, None] * HEAD_DIM + dims[None, :]
        q_tile = tl.load(q + q_at, mask=rows[:, None] < seqlen_q, other=0.0)
        do_tile = tl.load(dout + q_at, mask=rows[:, None] < seqlen_q, other=0.0)
        row_lse = tl.load(lse + row_at, mask=rows < seqlen_q, other=0.0)
        row_delta = tl.load(delta + row_at, mask=rows < seqlen_q, other=0.0)
        s = tl.dot(q_tile, tl.trans(k_tile)) * sm_scale
        seen = (keys[None, :] < seqlen_kv) & (rows[:, None] < seqlen_q)
        if CAUSAL:
            seen = seen & (keys[None, :] <= rows[:, None])
        s = tl.where(seen, s, float("-inf"))
        p = tl.exp(s - row_lse[:, None])
        dp = tl.dot(do_tile, tl.trans(v_tile))
        if MISTAKE == "v_not_transposed":
            dp = tl.dot(do_tile, v_tile)
        ds = p * (dp - row_delta[:, None])
        if MISTAKE == "delta_left_out":
            ds = p * dp
        ts.store_tile(dump.s, batch, head, q_block, kv_tile, s)
        ts.store_tile(dump.p, batch, head, q_block, kv_tile, p)
        ts.store_tile(dump.dp, batch, head, q_block, kv_tile, dp)
        ts.store_tile(dump.ds, batch, head, q_block, kv_tile, ds)
        dv_acc = tl.dot(tl.trans(p.to(do_tile.dtype)), do_tile, dv_acc)
        dk_acc = tl.dot(tl.trans(ds.to(q_tile.dtype)), q_tile, dk_acc)
    if MISTAKE != "ds_not_scaled":
        dk_acc = dk_acc * sm_scale
    dkv_at = tl.program_id(1).to(tl.int64) * seqlen_kv * HEAD_DIM + keys[:, None] * HEAD_DIM + dims[None, :]
    tl.store(dk + dkv_at, dk_acc.to(k_tile.dtype), mask=keys[:, None] < seqlen_kv)
    tl.store(dv + dkv_at, dv_acc.to(v_tile.dtype), mask=keys[:, None] < seqlen_kv)


def grid_of(blocks, q):
    return (blocks, q.shape[0] * q.shape[1])


def forward(q, k, v, causal, recorder=None, mistake="", block_m=64, block_n=64):
    """o and lse; the compiled kernel is the third."""
    o, lse = torch.empty_like(q), torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    kernel = forward_kernel[grid_of(triton.cdiv(q.shape[2], block_m), q)](
        q, k, v, o, lse, 1 / math.sqrt(q.shape[3]), q.shape[1], q.shape[1] // k.shape[1], q.shape[2], k.shape[2],
        ts.dump_of(recorder), HEAD_DIM=q.shape[3], BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal, MISTAKE=mistake,
    )  # fmt: skip
    return o, lse, kernel


def backward(q, k, v, o, lse, dout, causal, recorder=None, mistake="", block_m=64, block_n=64):
    """dk and dv of each query head."""
    delta = (o.float() * dout.float()).sum(-1)
    dk, dv = (torch.empty((*q.shape[:2], *k.shape[2:]), dtype=k.dtype, device=k.device) for _ in "kv")
    dkv_kernel[grid_of(triton.cdiv(k.shape[2], block_n), q)](
        q, k, v, dout, lse, delta, dk, dv, 1 / math.sqrt(q.shape[3]), q.shape[1], q.shape[1] // k.shape[1], q.shape[2],
        k.shape[2], ts.dump_of(recorder), HEAD_DIM=q.shape[3], BLOCK_M=block_m, BLOCK_N=block_n, CAUSAL=causal,
        MISTAKE=mistake,
    )  # fmt: skip
    return dk, dv
