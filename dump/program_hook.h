#pragma once

// Hooks of kernels that are no attention: what a kernel computes is declared as a text (oracle/PROGRAMS.md), and its stages are
// recorded by the names that they have there. Compiled with -DDEBUG_DUMP, or -DTILESCOPE_DUMP=1, they record; without it they
// expand to nothing. HOOKS.md has a whole kernel.
//
//     TILESCOPE_PROGRAM(gemm, R"(
//         axes   n: rows by 32; m: cols by 32; k: depth by 64
//         input  a[n, k]: f16; w[m, k]: f16
//         stage  acc[n, m] over k = acc + sum(k: a * w) in tensor_core_f32
//         stage  y[n, m]: f16 = silu(acc)
//         output y
//     )");
//
//     // No comma before what is added:
//     __global__ void gemm_kernel(const half* a, const half* w, half* y TILESCOPE_PROGRAM_SINK_PARAM(sink)) {
//         // Once, before the first hook:
//         TILESCOPE_PROGRAM_HOOKS(sink, gemm);
//         for (int block = 0; block < blocks; ++block) {
//             // Registers, whose places count from the corner n0, m0 of a tile; `block` is that of k:
//             TILESCOPE_PROGRAM_FRAGMENT(acc, (block, n0, m0), tile, MmaAccumulator{row, col, lane});
//             // One element:
//             TILESCOPE_PROGRAM_VALUE(acc, (block, n, m), sum);
//             // A tile in memory, split over the threads; tilescope::transposed(data) where it lies column by column:
//             TILESCOPE_PROGRAM_TILE(acc, (block, n0, m0), rows, cols, data, ld, thread, threads);
//         }
//     }
//
//     gemm_kernel<<<grid, block>>>(a, w, y TILESCOPE_PROGRAM_SINK_ARG(capture.sink()));  // of a ProgramCapture
//
// In parentheses stands an index for each axis of the stage, in the order of the text; of a state the number of the block comes
// first. A name that the text does not have, or another number of indices, is an error of the compiler. What lies behind the end
// of an axis in its last block is left out, and so is what is not selected. Copies of an element that differ count as conflicts.
// Hooks contain no barrier and no shared memory, as those of dump/hook.h, whose names clash with none of these.

#include "dump/hook/switch.h"

#if TILESCOPE_DUMP

#include <type_traits>

#include "dump/hook/program.h"

// What a kernel computes, under a name: gemm::text() is the text, with hooks and without.
#define TILESCOPE_PROGRAM(name, ...)                                               \
    struct name {                                                                  \
        TILESCOPE_HOOK static constexpr const char* text() { return __VA_ARGS__; } \
    }
#define TILESCOPE_PROGRAM_SINK_PARAM(sink) , TILESCOPE_GRID_CONSTANT const ::tilescope::ProgramSink sink
#define TILESCOPE_PROGRAM_SINK_ARG(sink) , sink
#define TILESCOPE_PROGRAM_SINK_OF(bytes) ::tilescope::program_sink_from((bytes).data(), (bytes).size())
#define TILESCOPE_PROGRAM_HOOKS(sink, program) \
    [[maybe_unused]] const ::tilescope::ProgramHooks<program> tilescope_program = {&(sink)}
#define TILESCOPE_PROGRAM_HOOKS_PARAM , const auto& tilescope_program
#define TILESCOPE_PROGRAM_HOOKS_ARG , tilescope_program
// The stage's number and dimensions, by its name: constants, whose text no kernel holds.
#define TILESCOPE_PROGRAM_STAGE(name) std::remove_reference_t<decltype(tilescope_program)>::stage(#name)
#define TILESCOPE_PROGRAM_NUMBERS(name) \
    TILESCOPE_PROGRAM_STAGE(name).number, TILESCOPE_PROGRAM_STAGE(name).dims
#define TILESCOPE_PROGRAM_DECLARED(stage) \
    static_assert(TILESCOPE_PROGRAM_STAGE(stage).is_declared(), "the program declares no stage " #stage)
#define TILESCOPE_PROGRAM_NOTE(stage)                                                                \
    ::tilescope::hook_program_note<TILESCOPE_PROGRAM_STAGE(stage).number,                            \
                                   ::tilescope::hook_id(__FILE__, __LINE__, ::tilescope::Stage::q)>( \
        tilescope_program,                                                                           \
        __FILE__ + std::integral_constant<int, ::tilescope::hook_file_begin(__FILE__)>::value, __LINE__)
#define TILESCOPE_PROGRAM_VALUE(stage, indices, value)                     \
    do {                                                                   \
        TILESCOPE_PROGRAM_DECLARED(stage);                                 \
        ::tilescope::hook_program_value<TILESCOPE_PROGRAM_NUMBERS(stage)>( \
            tilescope_program, ::tilescope::hook_indices indices, value);  \
        TILESCOPE_PROGRAM_NOTE(stage);                                     \
    } while (false)
#define TILESCOPE_PROGRAM_TILE(stage, indices, rows, cols, data, ld, thread, threads)                  \
    do {                                                                                               \
        TILESCOPE_PROGRAM_DECLARED(stage);                                                             \
        ::tilescope::hook_program_tile<TILESCOPE_PROGRAM_NUMBERS(stage)>(                              \
            tilescope_program, ::tilescope::hook_indices indices, int(rows), int(cols), data, int(ld), \
            int(thread), int(threads));                                                                \
        TILESCOPE_PROGRAM_NOTE(stage);                                                                 \
    } while (false)
// The places come last: their commas need no parentheses.
#define TILESCOPE_PROGRAM_FRAGMENT(stage, indices, values, ...)                         \
    do {                                                                                \
        using namespace ::tilescope::fragments;                                         \
        TILESCOPE_PROGRAM_DECLARED(stage);                                              \
        ::tilescope::hook_program_fragment<TILESCOPE_PROGRAM_NUMBERS(stage), false>(    \
            tilescope_program, ::tilescope::hook_indices indices, values, __VA_ARGS__); \
        TILESCOPE_PROGRAM_NOTE(stage);                                                  \
    } while (false)
// A number for each row of a fragment, in the stage's last dimension: MmaRowCopies{row, lane}.
#define TILESCOPE_PROGRAM_ROWS(stage, indices, values, ...)                             \
    do {                                                                                \
        using namespace ::tilescope::fragments;                                         \
        TILESCOPE_PROGRAM_DECLARED(stage);                                              \
        ::tilescope::hook_program_fragment<TILESCOPE_PROGRAM_NUMBERS(stage), true>(     \
            tilescope_program, ::tilescope::hook_indices indices, values, __VA_ARGS__); \
        TILESCOPE_PROGRAM_NOTE(stage);                                                  \
    } while (false)

#else

#define TILESCOPE_PROGRAM(name, ...)                                \
    struct name {                                                   \
        static constexpr const char* text() { return __VA_ARGS__; } \
    }
#define TILESCOPE_PROGRAM_SINK_PARAM(sink)
#define TILESCOPE_PROGRAM_SINK_ARG(sink)
#define TILESCOPE_PROGRAM_SINK_OF(bytes)
#define TILESCOPE_PROGRAM_HOOKS(sink, program) ((void)0)
#define TILESCOPE_PROGRAM_HOOKS_PARAM
#define TILESCOPE_PROGRAM_HOOKS_ARG
#define TILESCOPE_PROGRAM_VALUE(stage, indices, value) ((void)0)
#define TILESCOPE_PROGRAM_TILE(stage, indices, rows, cols, data, ld, thread, threads) ((void)0)
#define TILESCOPE_PROGRAM_FRAGMENT(stage, indices, values, ...) ((void)0)
#define TILESCOPE_PROGRAM_ROWS(stage, indices, values, ...) ((void)0)

#endif
