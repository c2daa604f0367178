#pragma once

// Hooks for attention kernels. Compiled with -DDEBUG_DUMP, or -DTILESCOPE_DUMP=1 where DEBUG_DUMP means something
// else (see dump/hook/switch.h), they record; without it they expand to nothing and
// this header declares nothing, so the kernel is the one that was written without them. HOOKS.md explains and
// shows each of them.
//
//     // No comma before what is added:
//     __global__ void attention(const half* q, const half* k, const half* v,
//                               half* o TILESCOPE_SINK_PARAM(sink)) {
//         // Once, before the first hook:
//         TILESCOPE_BLOCK(sink, batch, head, q_block);
//         for (int kv_tile = 0; kv_tile < kv_tiles; ++kv_tile) {
//             // A tile in memory, split over the threads:
//             TILESCOPE_TILE(k, kv_tile, k_shared, ld, thread, threads);
//             // One that is staged with its keys next to each other, [column][row]:
//             TILESCOPE_TILE(v, kv_tile, tilescope::transposed(v_shared), ld, thread, threads);
//             // Registers, and the places of their values:
//             TILESCOPE_FRAGMENT(s, kv_tile, s, MmaAccumulator{row, col, lane});
//             // One element, by its place in the tile:
//             TILESCOPE_VALUE(l, kv_tile, row, 0, row_sum);
//             // An element of which several lanes hold a copy:
//             TILESCOPE_REPLICATED(m, kv_tile, row, 0, row_max);
//         }
//     }
//
// The host passes the sink of a Capture (dump/capture.h):
//
//     attention<<<grid, block>>>(q, k, v, o TILESCOPE_SINK_ARG(capture.sink()));
//
// A kernel that Python has compiled gets that of a tilescope.Recorder, whose bytes are a std::string or a vector of bytes:
//
//     attention<<<grid, block>>>(q, k, v, o TILESCOPE_SINK_ARG(TILESCOPE_SINK_OF(bytes)));
//
// A kernel whose parameters are a struct has the sink in it: TILESCOPE_SINK_MEMBER(sink); among its members,
// TILESCOPE_SINK_SET(params.sink, capture.sink()); before the launch, params.sink where sink stands above.
//
// A kernel whose parameters cannot change reads the sink from a symbol of its file:
// TILESCOPE_SINK_SYMBOL(name) at namespace scope declares it, name stands where sink stands above, and
// TILESCOPE_ARM(capture, name) in the same file sets it.
//
// A tile that is none of the stages gets a name: TILESCOPE_NAMED_TILE(rescale, 0), outside of any namespace,
// lets hooks name the first of the problem's named_tiles `rescale`.
//
// Rows and columns count from the tile's corner. Row statistics (m, l, lse, delta) take column 0. Stages
// without a KV tile (q, o, lse, dout, delta, dq) take any kv_tile. What lies outside the tensor (tails) is
// left out, so whole tiles may be given. A value is a __half, a __nv_bfloat16, a float, or of any type that
// has a hook_float(value).
//
// Each hook line may be reached by any subset of a block's threads, in any order, at any time: hooks contain
// no barrier and no shared memory, and exchange statistics only with lanes that are there anyway.
//
// A kernel that has no registers to spare for hooks that do not record hands its work to a function:
//
//     template <bool record>
//     __global__ void attention(const half* q, const half* k, const half* v,
//                               half* o TILESCOPE_SINK_PARAM(sink)) {
//         TILESCOPE_BLOCK_CALL(record, sink, batch, head, q_block,
//                              attention_block(q, k, v, o TILESCOPE_BLOCK_ARG));
//     }
//
// It is compiled twice into the kernel, with hooks for blocks of which something is selected and without for the
// others; device functions that it is handed to take the block by TILESCOPE_CALL_PARAM, which is C++20. The host
// launches attention<true> where TILESCOPE_RECORDS(capture.sink()), and attention<false>, without any hook, where not.
//
// A backward kernel that walks query blocks puts TILESCOPE_BLOCK inside that loop. dk and dv have no query
// block: behind the loop, a TILESCOPE_BLOCK of their own takes any q_block, and as head the one of dk and dv:
// a KV head, or a query head where the problem says dkv_per_head.

#include "dump/hook/switch.h"

#if TILESCOPE_DUMP

#include "dump/hook/fragment.h"
#include "dump/hook/rows.h"
#include "dump/hook/source.h"
#include "dump/hook/write.h"

/// What hooks may name: the stages, and what TILESCOPE_NAMED_TILE adds. `using enum` is not of C++17.
namespace tilescope::hook_stages {
inline constexpr Stage q = Stage::q;
inline constexpr Stage k = Stage::k;
inline constexpr Stage v = Stage::v;
inline constexpr Stage s = Stage::s;
inline constexpr Stage m = Stage::m;
inline constexpr Stage p = Stage::p;
inline constexpr Stage l = Stage::l;
inline constexpr Stage acc = Stage::acc;
inline constexpr Stage o = Stage::o;
inline constexpr Stage lse = Stage::lse;
inline constexpr Stage dout = Stage::dout;
inline constexpr Stage delta = Stage::delta;
inline constexpr Stage dp = Stage::dp;
inline constexpr Stage ds = Stage::ds;
inline constexpr Stage dq = Stage::dq;
inline constexpr Stage dk = Stage::dk;
inline constexpr Stage dv = Stage::dv;
inline constexpr Stage named0 = Stage::named0;
inline constexpr Stage named1 = Stage::named1;
inline constexpr Stage named2 = Stage::named2;
inline constexpr Stage named3 = Stage::named3;
}  // namespace tilescope::hook_stages

/// Hooks of a block of which nothing is recorded.
namespace tilescope {
template <class... Arguments>
TILESCOPE_HOOK void hook_value(HookNothing, Stage, int, const Arguments&...) {}
template <class... Arguments>
TILESCOPE_HOOK void hook_replicated(HookNothing, Stage, int, const Arguments&...) {}
template <class... Arguments>
TILESCOPE_HOOK void hook_tile(HookNothing, Stage, int, const Arguments&...) {}
template <class... Arguments>
TILESCOPE_HOOK void hook_rows(HookNothing, Stage, int, const Arguments&...) {}
template <class... Arguments>
TILESCOPE_HOOK void hook_fragment(HookNothing, Stage, int, const Arguments&...) {}
TILESCOPE_HOOK void hook_wait(HookNothing, int, int) {}

template <bool record>
TILESCOPE_HOOK auto hook_block_if(const Sink& sink, int batch, int head, int q_block) {
    if constexpr (record) {
        return hook_block(sink, batch, head, q_block);
    } else {
        return HookNothing();
    }
}
}  // namespace tilescope

#define TILESCOPE_SINK_PARAM(sink) , TILESCOPE_GRID_CONSTANT const ::tilescope::Sink sink
#define TILESCOPE_HOST_SINK_PARAM(sink) , const ::tilescope::Sink& sink
#define TILESCOPE_SINK_ARG(sink) , sink
#define TILESCOPE_SINK_OF(bytes) ::tilescope::sink_from((bytes).data(), (bytes).size())
#define TILESCOPE_SINK_MEMBER(name) ::tilescope::Sink name
#define TILESCOPE_SINK_SET(member, sink) ((void)((member) = (sink)))
#define TILESCOPE_SINK_SYMBOL(name) __constant__ ::tilescope::Sink name
#define TILESCOPE_NAMED_TILE(name, index)                                 \
    static_assert((index) >= 0 && (index) < ::tilescope::max_named_tiles, \
                  "a problem has at most 4 named tiles, counted from 0"); \
    namespace tilescope::hook_stages {                                    \
    inline constexpr Stage name = named_tile(index);                      \
    }                                                                     \
    static_assert(true)
#define TILESCOPE_ARM(capture, name)                                         \
    (capture).arm(&name, [](const ::tilescope::Sink& tilescope_sink) {       \
        return int(cudaMemcpyToSymbol(name, &tilescope_sink, sizeof(name))); \
    })
#define TILESCOPE_BLOCK(sink, batch, head, q_block)                 \
    [[maybe_unused]] const ::tilescope::HookBlock tilescope_block = \
        ::tilescope::hook_block(sink, int(batch), int(head), int(q_block))
#define TILESCOPE_BLOCK_IF(record, sink, batch, head, q_block) \
    [[maybe_unused]] const auto tilescope_block =              \
        ::tilescope::hook_block_if<(record)>(sink, int(batch), int(head), int(q_block))
#define TILESCOPE_BLOCK_RECORDS(sink, batch, head, q_block) \
    (::tilescope::hook_block(sink, int(batch), int(head), int(q_block)).stages != 0)
#define TILESCOPE_RECORDS(sink) (((sink).q_block_stages | (sink).head_stages) != 0)
#define TILESCOPE_BLOCK_CALL(record, sink, batch, head, q_block, ...)        \
    do {                                                                     \
        if constexpr (record) {                                              \
            TILESCOPE_BLOCK(sink, batch, head, q_block);                     \
            if (tilescope_block.stages != 0) {                               \
                __VA_ARGS__;                                                 \
                break;                                                       \
            }                                                                \
        }                                                                    \
        [[maybe_unused]] constexpr ::tilescope::HookNothing tilescope_block; \
        __VA_ARGS__;                                                         \
    } while (false)
#define TILESCOPE_BLOCK_PARAM , const ::tilescope::HookBlock& tilescope_block
#define TILESCOPE_CALL_PARAM , const auto& tilescope_block
#define TILESCOPE_BLOCK_ARG , tilescope_block
// What records a stage and then notes where the hook stands, behind one test for both.
#define TILESCOPE_HOOKED(stage, call)                                                                        \
    (tilescope_block.keeps(::tilescope::hook_stages::stage)                                                  \
         ? (call, ::tilescope::hook_note<::tilescope::hook_id(__FILE__, __LINE__,                            \
                                                              ::tilescope::hook_stages::stage)>(             \
                      tilescope_block, ::tilescope::hook_stages::stage,                                      \
                      __FILE__ + std::integral_constant<int, ::tilescope::hook_file_begin(__FILE__)>::value, \
                      __LINE__))                                                                             \
         : void())
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value)                                              \
    TILESCOPE_HOOKED(stage, ::tilescope::hook_value(tilescope_block, ::tilescope::hook_stages::stage, \
                                                    int(kv_tile), int(row), int(col), value))
#define TILESCOPE_REPLICATED(stage, kv_tile, row, col, value)                                              \
    TILESCOPE_HOOKED(stage, ::tilescope::hook_replicated(tilescope_block, ::tilescope::hook_stages::stage, \
                                                         int(kv_tile), int(row), int(col), value))
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads)                                    \
    TILESCOPE_HOOKED(stage, ::tilescope::hook_tile(tilescope_block, ::tilescope::hook_stages::stage, \
                                                   int(kv_tile), data, int(ld), int(thread), int(threads)))
#define TILESCOPE_ROWS(stage, kv_tile, first_row, rows, data, ld, thread, threads)                    \
    TILESCOPE_HOOKED(                                                                                 \
        stage, ::tilescope::hook_rows(tilescope_block, ::tilescope::hook_stages::stage, int(kv_tile), \
                                      int(first_row), int(rows), data, int(ld), int(thread), int(threads)))
// The places come last: their commas need no parentheses.
#define TILESCOPE_FRAGMENT(stage, kv_tile, values, ...)                                                      \
    do {                                                                                                     \
        using namespace ::tilescope::fragments;                                                              \
        TILESCOPE_HOOKED(stage, ::tilescope::hook_fragment(tilescope_block, ::tilescope::hook_stages::stage, \
                                                           int(kv_tile), values, __VA_ARGS__));              \
    } while (false)
#define TILESCOPE_WAIT(kv_tile) ::tilescope::hook_wait(tilescope_block, __LINE__, int(kv_tile))

#else

#define TILESCOPE_SINK_PARAM(sink)
#define TILESCOPE_HOST_SINK_PARAM(sink)
#define TILESCOPE_SINK_ARG(sink)
#define TILESCOPE_SINK_OF(bytes)
#define TILESCOPE_SINK_MEMBER(name) static_assert(true)
#define TILESCOPE_SINK_SET(member, sink) ((void)0)
#define TILESCOPE_SINK_SYMBOL(name) static_assert(true)
#define TILESCOPE_NAMED_TILE(name, index) static_assert(true)
#define TILESCOPE_ARM(capture, name) ((void)0)
#define TILESCOPE_BLOCK(sink, batch, head, q_block) ((void)0)
#define TILESCOPE_BLOCK_IF(record, sink, batch, head, q_block) ((void)0)
#define TILESCOPE_BLOCK_RECORDS(sink, batch, head, q_block) false
#define TILESCOPE_RECORDS(sink) false
#define TILESCOPE_BLOCK_CALL(record, sink, batch, head, q_block, ...) __VA_ARGS__
#define TILESCOPE_BLOCK_PARAM
#define TILESCOPE_CALL_PARAM
#define TILESCOPE_BLOCK_ARG
#define TILESCOPE_VALUE(stage, kv_tile, row, col, value) ((void)0)
#define TILESCOPE_REPLICATED(stage, kv_tile, row, col, value) ((void)0)
#define TILESCOPE_TILE(stage, kv_tile, data, ld, thread, threads) ((void)0)
#define TILESCOPE_ROWS(stage, kv_tile, first_row, rows, data, ld, thread, threads) ((void)0)
#define TILESCOPE_FRAGMENT(stage, kv_tile, values, ...) ((void)0)
#define TILESCOPE_WAIT(kv_tile) ((void)0)

#endif
