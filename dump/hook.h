#pragma once

// Hooks for attention kernels. Compiled with -DDEBUG_DUMP they record; without it they expand to nothing and
// this header declares nothing, so the kernel is the one that was written without them.
//
//     __global__ void attention(..., half* o TILESCOPE_SINK_PARAM(sink))  // no comma before it
//     TILESCOPE_BLOCK(sink, batch, head, q_block);                // once, before the first hook
//     TILESCOPE_VALUE(s, kv_tile, row, col, score);               // one element, by its place in the tile
//     TILESCOPE_TILE(k, kv_tile, k_shared, ld, thread, threads);  // a tile in memory, split over the threads
//     attention<<<grid, block>>>(q, ..., o TILESCOPE_SINK_ARG(capture.sink()));
//
// Rows and columns count from the tile's corner. Row statistics (m, l, lse, delta) take column 0. Stages
// without a KV tile (q, o, lse, dout, delta, dq) take any kv_tile. What lies outside the tensor (tails) is
// left out, so whole tiles may be given. A value is a __half, a __nv_bfloat16, a float, or of any type that
// has a hook_float(value).
//
// Each hook line may be reached by any subset of a block's threads, in any order, at any time: hooks contain
// no barrier, no shuffle and no shared memory.
//
// A backward kernel that walks query blocks puts TILESCOPE_BLOCK inside that loop. dk and dv have no query
// block: behind the loop, a TILESCOPE_BLOCK of their own takes any q_block, and as head the one of dk and dv:
// a KV head, or a query head where the problem says dkv_per_head.

#ifdef DEBUG_DUMP

#include "dump/hook_write.h"

#define TILESCOPE_SINK_PARAM(sink) , const ::tilescope::Sink sink
#define TILESCOPE_SINK_ARG(sink) , sink
#define TILESCOPE_BLOCK(sink, batch, head, q_block)                 \
    [[maybe_unused]] const ::tilescope::HookBlock tilescope_block { \
        &(sink), int(batch), int(head), int(q_block)                \
    }
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value)                                                  \
    ::tilescope::hook_value(tilescope_block, ::tilescope::Stage::stage, int(kv_tile), int(row), int(col), \
                            value)
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads)                                   \
    ::tilescope::hook_tile(tilescope_block, ::tilescope::Stage::stage, int(kv_tile), data, int(ld), \
                           int(thread), int(threads))

#else

#define TILESCOPE_SINK_PARAM(sink)
#define TILESCOPE_SINK_ARG(sink)
#define TILESCOPE_BLOCK(sink, batch, head, q_block) ((void)0)
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value) ((void)0)
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads) ((void)0)

#endif
