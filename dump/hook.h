#pragma once

// Hooks for attention kernels. Compiled with -DDEBUG_DUMP they record; without it every macro here is empty
// and this header declares nothing, so the kernel is the one that was written without them.
//
//     __global__ void attention(const half* q, ..., half* o
//                               TILESCOPE_SINK_PARAM(sink))      // after the last parameter, no comma before
//                               it
//     TILESCOPE_BLOCK(sink, batch, head, q_block);               // once, before the first hook
//     TILESCOPE_VALUE(s, kv_tile, row, col, score);              // one element, by its place in the tile
//     TILESCOPE_TILE(k, kv_tile, k_shared, ld, thread, threads); // a tile in memory, shared out over the
//     threads
//
// Rows and columns count from the tile's corner. Row statistics (m, l, lse) take column 0. Stages without a
// KV tile (q, o, lse) take any kv_tile. What lies outside the tensor (tails) is left out, so whole tiles may
// be given. Each hook line may be reached by any subset of a block's threads, in any order, at any time:
// hooks contain no barrier, no shuffle and no shared memory.

#ifdef DEBUG_DUMP

#include "dump/hook_write.h"

#define TILESCOPE_SINK_PARAM(sink) , const ::tilescope::Sink sink
#define TILESCOPE_SINK_ARG(sink) , sink
#define TILESCOPE_BLOCK(sink, batch, head, q_block)  \
    const ::tilescope::HookBlock tilescope_block {   \
        &(sink), int(batch), int(head), int(q_block) \
    }
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value)                                                  \
    ::tilescope::hook_value(tilescope_block, ::tilescope::Stage::stage, int(kv_tile), int(row), int(col), \
                            ::tilescope::hook_float(value))
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads)                                   \
    ::tilescope::hook_tile(tilescope_block, ::tilescope::Stage::stage, int(kv_tile), data, int(ld), \
                           int(thread), int(threads))

#else

#define TILESCOPE_SINK_PARAM(sink)
#define TILESCOPE_SINK_ARG(sink)
#define TILESCOPE_BLOCK(sink, batch, head, q_block)
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value)
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads)

#endif
