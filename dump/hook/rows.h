#pragma once

// Hooks of tiles that lie in shared or global memory.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dump/hook/device.h"
#include "dump/hook/sink.h"
#include "dump/hook/write.h"

namespace tilescope {

/// Visits every `threads`-th place from `thread` on of `rows` rows and `cols` columns, row by row.
template <class Visit>
TILESCOPE_HOOK void hook_walk(int rows, int cols, int thread, int threads, const Visit& visit) {
    const int row_step = threads / cols;
    const int col_step = threads % cols;
    int row = thread / cols;
    int col = thread % cols;
    TILESCOPE_HOOK_ROLLED
    while (row < rows) {
        visit(row, col);
        row += row_step;
        col += col_step;
        if (col >= cols) {
            col -= cols;
            ++row;
        }
    }
}

/// Memory that holds a tile column by column: row r and column c lie at data[c ld + r].
template <class T>
struct Transposed {
    const T* data;
};
/// What TILESCOPE_TILE and TILESCOPE_ROWS take as `data` where k or v is staged with its keys next to each other.
template <class T>
TILESCOPE_HOOK Transposed<T> transposed(const T* data) {
    return {data};
}

template <class T>
TILESCOPE_HOOK const T& hook_at(const T* data, int ld, int row, int col) {
    return data[std::ptrdiff_t(row) * ld + col];
}
template <class T>
TILESCOPE_HOOK const T& hook_at(const Transposed<T>& memory, int ld, int row, int col) {
    return hook_at(memory.data, ld, col, row);
}

/// Four neighbouring elements in memory.
template <class T>
struct alignas(4 * sizeof(T)) HookFour {
    T of[4];
};

/// Whether rows in memory can be read and kept four elements at once: a quarter of the loads and stores.
template <class T>
TILESCOPE_HOOK bool hook_goes_in_fours(const Sink& sink, const SinkStage& room, const HookTile& tile,
                                       const T* data, int ld) {
    // The tiles of a stage begin where those of the one before it end. There are no words in
    // SinkMode::statistics.
    const bool aligned = (reinterpret_cast<std::uintptr_t>(data) % sizeof(HookFour<T>) |
                          reinterpret_cast<std::uintptr_t>(room.words) % 16) == 0;
    return sink.mode < SinkMode::checked && aligned &&
           ((tile.cols | unsigned(room.col.extent) | unsigned(ld)) & 3u) == 0;
}

/// Which groups of four elements of a tile a thread takes: the first one, and the distance to the next. The
/// number of threads side by side in a row is the largest power of two that divides both the columns' fours
/// and the threads, so that shifts serve: divisions would take longer than the rest.
struct HookShare {
    int row;
    int col;
    int row_step;
    int col_step;
};
TILESCOPE_HOOK HookShare hook_share_of_fours(int cols, int thread, int threads) {
    const int fours_or_threads = cols / 4 | threads;
    const int side_by_side = fours_or_threads & -fours_or_threads;
    const int log2 = hook_log2(side_by_side);
    return {thread >> log2, (thread & (side_by_side - 1)) * 4, threads >> log2, side_by_side * 4};
}

/// Visits a thread's share of `rows` rows of `cols` columns: all of its rows in one column of fours, then in
/// the next.
template <class T, class Visit>
TILESCOPE_HOOK void hook_walk_fours(int rows, int cols, const T* data, int ld, const HookShare& share,
                                    const Visit& visit) {
    if (share.row >= rows) return;
    int col = share.col;
    do {
        int row = share.row;
        const T* four = data + (std::ptrdiff_t(row) * ld + col);
        TILESCOPE_HOOK_ROLLED
        do {
            visit(row, col, *reinterpret_cast<const HookFour<T>*>(four));
            row += share.row_step;
            four += std::ptrdiff_t(share.row_step) * ld;
        } while (row < rows);
        col += share.col_step;
    } while (col < cols);
}

template <class T>
TILESCOPE_HOOK void hook_rows_in_fours(const Sink& sink, const SinkStage& room, const HookTile& tile,
                                       int first_row, int rows, const T* data, int ld, int thread,
                                       int threads) {
    const int cols = int(tile.cols);
    const HookShare share = hook_share_of_fours(cols, thread, threads);
    if (sink.mode == SinkMode::statistics) {
        const HookPlace first = {first_row + share.row, share.col};
        hook_keep_statistics(tile.statistics(room), first, [&](const auto& add) {
            hook_walk_fours(rows, cols, data, ld, share, [&](int, int, const HookFour<T>& values) {
                TILESCOPE_HOOK_UNROLL
                for (int i = 0; i < 4; ++i) add(hook_float(values.of[i]));
            });
        });
        return;
    }
    std::uint32_t* const words = tile.words(room);
    hook_walk_fours(rows, cols, data, ld, share, [&](int row, int col, const HookFour<T>& values) {
        hook_set_four(&words[hook_place_in(room, first_row + row, col)], hook_kept_bits(values.of[0]),
                      hook_kept_bits(values.of[1]), hook_kept_bits(values.of[2]),
                      hook_kept_bits(values.of[3]));
    });
}

/// Records share number `thread` of the `threads` that make up `rows` rows of a tile from `first_row` on,
/// which lie in shared or global memory with leading dimension `ld`: `data` points to the first of them, row-major, or is
/// transposed(). Which elements a share has depends on the columns. Nothing outside the tensor is read.
template <class Data>
TILESCOPE_HOOK void hook_rows(const HookBlock& block, Stage stage, int kv_tile, int first_row, int rows,
                              Data data, int ld, int thread, int threads) {
    if (!block.keeps(stage)) return;
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const bool in_tile = first_row >= 0 && rows >= 0 && first_row + rows <= room.row.extent;
    if (thread < 0 || threads < 1 || !in_tile) {
        hook_lose(block, kv_tile, &sink.counters->out_of_range[int(stage)], 1, {first_row, thread});
        return;
    }
    const HookTile tile = hook_find(block, stage, kv_tile);
    const int rows_inside = first_row + rows < int(tile.rows) ? rows : int(tile.rows) - first_row;
    if constexpr (std::is_pointer_v<Data>) {
        if (tile.fate == HookFate::kept && hook_goes_in_fours(sink, room, tile, data, ld)) {
            hook_rows_in_fours(sink, room, tile, first_row, rows_inside, data, ld, thread, threads);
            return;
        }
    }
    hook_wait(block, int(stage), kv_tile);
    hook_share(block, stage, kv_tile, [&](const auto& visit) {
        hook_walk(rows_inside, int(tile.cols), thread, threads, [&](int row, int col) {
            // Of a tile that is not kept there may be no data.
            const bool kept = tile.fate == HookFate::kept;
            visit(first_row + row, col, kept ? hook_float(hook_at(data, ld, row, col)) : 0.0F);
        });
    });
}

/// The same for a whole tile.
template <class Data>
TILESCOPE_HOOK void hook_tile(const HookBlock& block, Stage stage, int kv_tile, Data data, int ld, int thread,
                              int threads) {
    if (!block.keeps(stage)) return;
    hook_rows(block, stage, kv_tile, 0, block.sink->stages[int(stage)].row.extent, data, ld, thread, threads);
}

}  // namespace tilescope
