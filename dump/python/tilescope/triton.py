"""Stores of tiles for Triton kernels, into the buffers of a Recorder.

    @triton.jit
    def my_attention(..., dump):
        ...
        ts.store_tile(dump.s, batch, head, q_block, kv_tile, scores)
        ts.store_rows(dump.m, batch, head, q_block, kv_tile, row_max)

    my_attention[grid](..., ts.dump_of(recorder))       # ts.dump_of(None): nothing of it is compiled

and of a declared kernel, into those of a ProgramRecorder:

    @triton.jit
    def my_gemm(..., dump):
        ...
        ts.store(dump.acc, (block, n0, m0), acc)         # the tile whose corner is element n0, m0 of the stage

    my_gemm[grid](..., ts.program_dump_of(program, recorder))   # None in place of the recorder: nothing of it is compiled
"""

import collections
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


class StageBuffer(typing.NamedTuple):
    """A stage of a declared kernel, or the part of it that is selected: where it lies, from which index on, and how large it is."""

    data: object
    first: tuple
    count: tuple


def program_dump_of(program, recorder):
    """What a kernel takes to store into a ProgramRecorder: its stages by their names, () where one is not recorded."""
    dump = collections.namedtuple("ProgramDump", program.stages)
    recorded = () if recorder is None else recorder.stages
    buffers = {name: StageBuffer(recorder.buffer(name), recorder.origin(name), tuple(recorder.buffer(name).shape))
               for name in recorded}
    return dump(**{name: buffers.get(name, ()) for name in program.stages})


@triton.jit
def store(buffer, indices, values):
    """Stores a number, a vector or a tile of a stage. `indices` are those of its corner, of each axis in the order of the text; of a
    state the number of the block comes first. What lies behind the end of an axis is left out."""
    if len(buffer) > 0:
        dims: tl.constexpr = len(indices)
        tile_dims: tl.constexpr = len(values.shape)
        inside = tl.full((), 1, tl.int1)
        address = tl.full((), 0, tl.int64)
        for i in tl.static_range(dims - tile_dims):
            within = indices[i] - buffer.first[i]
            inside = inside & (within >= 0) & (within < buffer.count[i])
            address = address * buffer.count[i] + within
        if tile_dims == 0:
            tl.store(buffer.data + address, values.to(tl.float32), mask=inside)
        elif tile_dims == 1:
            cols = indices[dims - 1] - buffer.first[dims - 1] + tl.arange(0, values.shape[0])
            kept = inside & (cols >= 0) & (cols < buffer.count[dims - 1])
            tl.store(buffer.data + address * buffer.count[dims - 1] + cols, values.to(tl.float32), mask=kept)
        else:
            rows = indices[dims - 2] - buffer.first[dims - 2] + tl.arange(0, values.shape[0])[:, None]
            cols = indices[dims - 1] - buffer.first[dims - 1] + tl.arange(0, values.shape[1])[None, :]
            kept = inside & (rows >= 0) & (rows < buffer.count[dims - 2]) & (cols >= 0) & (cols < buffer.count[dims - 1])
            places = (address * buffer.count[dims - 2] + rows) * buffer.count[dims - 1] + cols
            tl.store(buffer.data + places, values.to(tl.float32), mask=kept)
