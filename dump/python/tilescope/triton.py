"""Stores of tiles for Triton kernels, into the buffers of a Recorder.

    @triton.jit
    def my_attention(..., dump):
        ...
        ts.store_tile(dump.s, batch, head, q_block, kv_tile, scores)
        ts.store_rows(dump.m, batch, head, q_block, kv_tile, row_max)

    my_attention[grid](..., ts.dump_of(recorder))       # ts.dump_of(None): nothing of it is compiled
"""

import typing

import triton
import triton.language as tl


class Buffer(typing.NamedTuple):
    """Tiles of one stage: where they lie, and which."""

    data: object
    batch: int
    head: int
    q_block: int
    kv_tile: int
    batches: int
    heads: int
    q_blocks: int
    kv_tiles: int


class Dump(typing.NamedTuple):
    """The argument of a kernel: a Buffer for each stage that is recorded, () for the others.

    Not None: Triton 3.6 loses its way in a tuple with None in it, as soon as a loop reads one.
    """

    q: tuple = ()
    k: tuple = ()
    v: tuple = ()
    s: tuple = ()
    m: tuple = ()
    p: tuple = ()
    l: tuple = ()
    acc: tuple = ()
    dout: tuple = ()
    delta: tuple = ()
    dp: tuple = ()
    ds: tuple = ()


def dump_of(recorder):
    """What a kernel takes to store into a Recorder; None for a kernel that stores nothing."""
    if recorder is None:
        return Dump()
    buffers = {}
    for stage in recorder.stages:
        data = recorder.buffer(stage)
        buffers[stage] = Buffer(data, *recorder.origin(stage), *data.shape[:4])
    return Dump(**buffers)


@triton.jit
def _slot_of(buffer, batch, head, q_block, kv_tile):
    """The number of a tile in its buffer, -1 for one that it does not have."""
    b = batch - buffer.batch
    h = head - buffer.head
    m = q_block - buffer.q_block
    n = kv_tile - buffer.kv_tile
    inside = (b >= 0) & (b < buffer.batches) & (h >= 0) & (h < buffer.heads)
    inside = inside & (m >= 0) & (m < buffer.q_blocks) & (n >= 0) & (n < buffer.kv_tiles)
    slot = ((b * buffer.heads + h) * buffer.q_blocks + m) * buffer.kv_tiles + n
    return tl.where(inside, slot, -1).to(tl.int64)


@triton.jit
def store_tile(buffer, batch, head, q_block, kv_tile, tile):
    """Stores a tile [rows][columns], of block_m or block_n rows; padding may hold anything."""
    if len(buffer) > 0:
        slot = _slot_of(buffer, batch, head, q_block, kv_tile)
        rows: tl.constexpr = tile.shape[0]
        cols: tl.constexpr = tile.shape[1]
        within = tl.arange(0, rows)[:, None] * cols + tl.arange(0, cols)[None, :]
        tl.store(buffer.data + slot * (rows * cols) + within, tile.to(tl.float32), mask=slot >= 0)


@triton.jit
def store_rows(buffer, batch, head, q_block, kv_tile, values):
    """Stores one number a row: m, l or delta."""
    if len(buffer) > 0:
        slot = _slot_of(buffer, batch, head, q_block, kv_tile)
        rows: tl.constexpr = values.shape[0]
        tl.store(buffer.data + slot * rows + tl.arange(0, rows), values.to(tl.float32), mask=slot >= 0)
