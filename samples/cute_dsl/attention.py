"""Flash attention in the CuTe DSL, a thread a query row, with stores of its tiles and mistakes to plant.

Arrays are contiguous float32 [batch, heads, seqlen, 16], their lengths multiples of the blocks. The lines that begin with ts. are
all that tilescope adds: without a recorder no store of them is compiled.
"""

import math

import cutlass
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from tilescope import cute as ts

BLOCK_M, BLOCK_N, HEAD_DIM = 64, 16, 16
MISTAKES = {"acc_not_rescaled": "acc", "scale_of_half": "s", "l_starts_anew": "l", "v_of_next_key": "acc"}


@cute.kernel
def attention_kernel(q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, o: cute.Tensor, dump_s, dump_m, dump_p, dump_l, dump_acc,
                     mistake: cutlass.Constexpr):  # fmt: skip
    row, _, _ = cute.arch.thread_idx()
    q_block, head, batch = cute.arch.block_idx()
    head_kv = head // (q.shape[1] // k.shape[1])
    query = q_block * BLOCK_M + row
    scale = 1 / math.sqrt(HEAD_DIM)
    if cutlass.const_expr(mistake == "scale_of_half"):
        scale = scale / 2
    s = cute.make_fragment(BLOCK_N, cutlass.Float32)
    acc = cute.make_fragment(HEAD_DIM, cutlass.Float32)
    for d in cutlass.range_constexpr(HEAD_DIM):
        acc[d] = cutlass.Float32(0.0)
    m = cutlass.Float32(-1e30)
    l = cutlass.Float32(0.0)
    for tile in range(k.shape[2] // BLOCK_N):
        m_new = m
        for j in cutlass.range_constexpr(BLOCK_N):
            score = cutlass.Float32(0.0)
            for d in cutlass.range_constexpr(HEAD_DIM):
                score = score + q[(batch, head, query, d)] * k[(batch, head_kv, tile * BLOCK_N + j, d)]
            score = score * scale
            s[j] = score
            m_new = cute.arch.fmax(m_new, score)
            ts.store(dump_s, (batch, head, q_block, tile, row, j), score)
        rescale = cute.arch.exp(m - m_new)
        m = m_new
        if cutlass.const_expr(mistake != "l_starts_anew"):
            l = l * rescale
        else:
            l = cutlass.Float32(0.0)
        for d in cutlass.range_constexpr(HEAD_DIM):
            if cutlass.const_expr(mistake != "acc_not_rescaled"):
                acc[d] = acc[d] * rescale
        for j in cutlass.range_constexpr(BLOCK_N):
            p = cute.arch.exp(s[j] - m)
            ts.store(dump_p, (batch, head, q_block, tile, row, j), p)
            l = l + p
            key = tile * BLOCK_N + j
            if cutlass.const_expr(mistake == "v_of_next_key"):
                key = (key + 1) % v.shape[2]
            for d in cutlass.range_constexpr(HEAD_DIM):
                acc[d] = acc[d] + p * v[(batch, head_kv, key, d)]
        ts.store(dump_m, (batch, head, q_block, tile, row, 0), m)
        ts.store(dump_l, (batch, head, q_block, tile, row, 0), l)
        for d in cutlass.range_constexpr(HEAD_DIM):
            ts.store(dump_acc, (batch, head, q_block, tile, row, d), acc[d])
    for d in cutlass.range_constexpr(HEAD_DIM):
        o[(batch, head, query, d)] = acc[d] / l


@cute.jit
def launch(q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, o: cute.Tensor, dump_s, dump_m, dump_p, dump_l, dump_acc,
           mistake: cutlass.Constexpr):  # fmt: skip
    attention_kernel(q, k, v, o, dump_s, dump_m, dump_p, dump_l, dump_acc, mistake).launch(
        grid=[q.shape[2] // BLOCK_M, q.shape[1], q.shape[0]], block=[BLOCK_M, 1, 1])  # fmt: skip


def attention(q, k, v, o, recorder=None, mistake=""):
    """Writes o."""
    buffers = [ts.buffer_of(recorder, stage) for stage in ("s", "m", "p", "l", "acc")]
    launch(*(from_dlpack(array) for array in (q, k, v, o)), *buffers, mistake)
