#pragma once

// What the macros of hook.h call: include that one.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dump/hook_device.h"
#include "dump/sink.h"

namespace tilescope {

/// The place in the problem that the thread block works on. For dk and dv `head` counts dkv_heads(), and
/// q_block means nothing.
struct HookBlock {
    const Sink* sink;
    std::uint32_t stages;  ///< bit set of those of which something may have to be kept or counted
    int slot;              ///< of the query block; -1 where it is not selected or not in the problem
    int batch;
    int head;
    int q_block;

    TILESCOPE_HOOK bool keeps(Stage stage) const { return (stages >> unsigned(stage) & 1u) != 0; }
};

/// The exact float32 value of an element. A type of one's own is recorded through a hook_float in its
/// namespace.
TILESCOPE_HOOK float hook_float(float value) {
    return value;
}
template <class T>
TILESCOPE_HOOK float hook_float(T) {
    static_assert(!std::is_same_v<T, double>,
                  "a hook records float32, which would round a double: convert it to float in the kernel");
    static_assert(std::is_same_v<T, double>,
                  "a hook records float, __half, __nv_bfloat16 and types with a hook_float(value) in their "
                  "namespace: convert the value to one of them, or write that function");
    return 0;
}
#ifdef __CUDACC__
TILESCOPE_HOOK float hook_float(__half value) {
    return __half2float(value);
}
TILESCOPE_HOOK float hook_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
#endif

/// What the sink has for one tile. A tile that is not selected has no elements.
struct HookTile {
    std::uint32_t* words = nullptr;
    std::uint32_t* conflicts = nullptr;
    TileStatistics* statistics = nullptr;
    SinkLoss* lost = nullptr;  ///< null: the tile has room; otherwise counts what it has not
    unsigned rows = 0;         ///< the part inside the tensor
    unsigned cols = 0;
    unsigned ld = 0;
};

/// One of a tile's elements, by its row and column.
struct HookPlace {
    int row;
    int col;
};
/// Row of an element that the thread does not hold.
inline constexpr int hook_nowhere = -0x7fffffff - 1;

/// Looks once a block whether anything is kept of it, so that hooks of a block that is not selected cost a
/// test of a bit.
TILESCOPE_HOOK HookBlock hook_block(const Sink& sink, int batch, int head, int q_block) {
    // One way out: where several meet, the compiler loses sight of the sink's place in constant memory.
    HookBlock block = {&sink, sink.q_block_stages | sink.head_stages, -1, batch, head, q_block};
    const bool in_problem = unsigned(batch) < unsigned(sink.batch) && unsigned(head) < unsigned(sink.heads) &&
                            unsigned(q_block) < unsigned(sink.q_blocks);
    // What is out of range is counted by the hooks.
    if (block.stages != 0 && in_problem) {
        block.slot = sink.q_block_slots[(batch * sink.heads + head) * sink.q_blocks + q_block];
        block.stages = block.slot < 0 ? sink.head_stages : block.stages;
    }
    return block;
}

/// The part of a tile that lies inside the tensor, along one axis.
TILESCOPE_HOOK unsigned hook_extent(const SinkAxis& axis, int q_block, int kv_tile) {
    const int inside = axis.inside - q_block * axis.per_q_block - kv_tile * axis.per_kv_tile;
    return unsigned(inside < axis.extent ? inside : axis.extent);
}

/// Slot of what a stage's tiles are of, KV tiles aside; -1 where it is not selected, -2 where the problem has
/// none.
TILESCOPE_HOOK int hook_outer_slot(const HookBlock& block, const SinkStage& room) {
    const Sink& sink = *block.sink;
    // A block that is in the problem and not selected does not come here.
    if (room.per_q_block) return block.slot < 0 ? -2 : block.slot;
    const bool in_problem =
        unsigned(block.batch) < unsigned(sink.batch) && unsigned(block.head) < unsigned(sink.dkv_heads);
    return in_problem ? sink.dkv_head_slots[block.batch * sink.dkv_heads + block.head] : -2;
}

TILESCOPE_HOOK HookTile hook_find(const HookBlock& block, Stage stage, int kv_tile) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    HookTile tile;
    tile.ld = unsigned(room.col.extent);
    if (!room.per_kv_tile) kv_tile = 0;
    const int outer_slot = hook_outer_slot(block, room);
    if (outer_slot == -2 || unsigned(kv_tile) >= unsigned(sink.kv_tiles)) {
        tile.rows = unsigned(room.row.extent);
        tile.cols = unsigned(room.col.extent);
        tile.lost = &sink.counters->out_of_range[int(stage)];
        return tile;
    }
    const int kv_slot = sink.every_kv_tile || !room.per_kv_tile ? kv_tile : sink.kv_tile_slots[kv_tile];
    if (outer_slot < 0 || kv_slot < 0) return tile;
    tile.rows = hook_extent(room.row, block.q_block, kv_tile);
    tile.cols = hook_extent(room.col, block.q_block, kv_tile);

    const std::uint64_t slot =
        std::uint64_t(unsigned(outer_slot)) * room.kv_slots + std::uint64_t(unsigned(kv_slot));
    if (slot >= room.capacity) {
        tile.lost = &sink.counters->dropped[int(stage)];
    } else if (sink.mode == SinkMode::statistics) {
        tile.statistics = room.statistics + unsigned(slot);
    } else {
        tile.words = room.words + std::uint64_t(unsigned(slot)) * room.elements;
        tile.conflicts = room.conflicts + unsigned(slot);
    }
    return tile;
}

/// Bits of an element as the sink keeps them: a NaN that looks like the unwritten marker becomes another.
TILESCOPE_HOOK std::uint32_t hook_kept_bits(float value) {
    const std::uint32_t bits = hook_bits(value);
    return bits == unwritten_bits ? 0x7fffffffu : bits;
}

/// Notes that the calling thread wrote the element of a word of writers.
TILESCOPE_HOOK void hook_note_writer(std::uint32_t* writer) {
    const std::uint32_t thread = hook_thread();
    std::uint32_t known = unwritten_bits;
    std::uint32_t noted = writer_once | thread;
    while (known != noted) {
        const std::uint32_t found = hook_compare_exchange(writer, known, noted);
        if (found == known) return;
        known = found;
        noted = (known & writer_thread) == thread ? known : known | writer_several;
        if (known < writer_most * writer_once) noted += writer_once;
    }
}

/// Whichever of two writers comes second sees the first one's bits, so two that differ are counted however
/// they race.
TILESCOPE_HOOK void hook_store_checked(const Sink& sink, std::uint32_t* word, std::uint32_t* conflicts,
                                       std::uint32_t bits) {
    if (sink.writers != 0) hook_note_writer(word + sink.writers);
    const std::uint32_t before = hook_exchange(word, bits);
    if (before != unwritten_bits && before != bits) hook_count(conflicts, std::uint32_t(1));
}

/// The calling thread's part of a tile's statistics.
struct HookStatistics {
    std::uint32_t hash = 0;
    std::uint32_t written = 0;
    std::uint32_t nan = 0;
    std::uint32_t infinite = 0;
    std::uint32_t zero = 0;
    float least = hook_float_of(0x7f800000u);
    float greatest = hook_float_of(0xff800000u);
    float sum = 0;
    float sum_of_squares = 0;

    /// For numbers that are expected to be finite: where one was not, finite() says so and add_any() has to
    /// be given all of them anew.
    TILESCOPE_HOOK void add(float value) {
        hash = hash * 0x9e3779b1u + hook_bits(value);
        ++written;
        least = hook_smaller(least, value);
        greatest = hook_larger(greatest, value);
        sum += value;
        sum_of_squares += value * value;
        zero += value == 0;
    }
    TILESCOPE_HOOK bool finite() const { return sum_of_squares < hook_float_of(0x7f800000u); }

    TILESCOPE_HOOK void add_any(float value) {
        const std::uint32_t magnitude = hook_bits(value) & 0x7fffffffu;
        if (magnitude < 0x7f800000u) {
            add(value);
        } else {
            hash = hash * 0x9e3779b1u + hook_bits(value);
            ++written;
            nan += magnitude > 0x7f800000u;
            infinite += magnitude == 0x7f800000u;
        }
    }
};

/// Bits whose order as unsigned integers is that of the values.
TILESCOPE_HOOK std::uint32_t ordered_bits(float value) {
    const std::uint32_t bits = hook_bits(value);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

/// A hash of a thread's part and of the place of its first element. The finaliser of MurmurHash3:
/// neighbouring inputs give unrelated sums.
TILESCOPE_HOOK std::uint32_t hook_mix(std::uint32_t hash, HookPlace first) {
    std::uint32_t mixed = hash + (unsigned(first.row) * 0x9e3779b1u ^ unsigned(first.col));
    mixed = (mixed ^ mixed >> 16) * 0x85ebca6bu;
    mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35u;
    return mixed ^ mixed >> 16;
}

/// A thread's sum in multiples of statistics_unit.
TILESCOPE_HOOK long long hook_units(float sum) {
    constexpr float most = float(1 << 28);  // see HookMerge::add
    const float kept = sum > most ? most : sum < -most ? -most : sum;
    return (long long)(kept * float(1 << 24));
}

/// Adds a thread's part; `first` is the place of its first element.
TILESCOPE_HOOK void hook_merge(TileStatistics* into, const HookStatistics& part, HookPlace first) {
    const HookTogether together(into);
    const bool none = part.least > part.greatest;
    const std::uint32_t hash = together.sum(hook_mix(part.hash, first));
    const std::uint32_t written = together.sum(part.written);
    // -0 counts as 0 in both.
    const std::uint32_t least = together.least(none ? 0xffffffffu : ordered_bits(part.least + 0.0f));
    const std::uint32_t greatest = together.greatest(none ? 0u : ordered_bits(part.greatest + 0.0f));
    const std::uint32_t zero = together.sum(part.zero);
    const long long sum = together.sum(hook_units(part.sum));
    const long long sum_of_squares = together.sum(hook_units(part.sum_of_squares));
    if (together.leads()) {
        hook_count(&into->hash, hash);
        hook_count(&into->written, written);
        hook_lower(&into->least, least);
        hook_raise(&into->greatest, greatest);
        hook_count(&into->sum, sum);
        hook_count(&into->sum_of_squares, sum_of_squares);
        if (zero != 0) hook_count(&into->zero, zero);
    }
    // Few threads have any.
    if (part.nan != 0) hook_count(&into->nan, part.nan);
    if (part.infinite != 0) hook_count(&into->infinite, part.infinite);
}

/// Merges the statistics of the values that `add_all` hands to a function of a value; `first` tells this
/// thread's part from those of others.
template <class AddAll>
TILESCOPE_HOOK void hook_keep_statistics(TileStatistics* into, const HookPlace& first,
                                         const AddAll& add_all) {
    HookStatistics part;
    add_all([&](float value) { part.add(value); });
    if (!part.finite()) {
        part = HookStatistics();
        add_all([&](float value) { part.add_any(value); });
    }
    if (part.written != 0) hook_merge(into, part, first);
}

/// Counts elements that are not kept, the first of them at `first`.
TILESCOPE_HOOK void hook_lose(const HookBlock& block, int kv_tile, SinkLoss* loss,
                              unsigned long long elements, HookPlace first) {
    if (elements == 0 || hook_count_from(&loss->elements, elements) != 0) return;
    const int place[] = {block.batch, block.head, block.q_block, kv_tile, first.row, first.col};
    for (int i = 0; i < 6; ++i) loss->first[i] = place[i];
}

/// Elements that `each` visits: values at their places in a tile. How they are recorded does not depend on
/// where they come from: `each` is called with a function of (row, col, value).
template <class Each>
TILESCOPE_HOOK void hook_share(const HookBlock& block, Stage stage, int kv_tile, const HookTile& tile,
                               const Each& each) {
    const Sink& sink = *block.sink;
    bool all_inside = true;
    // Whether the element is inside the tensor.
    const auto inside = [&](int row, int col) {
        const bool is = unsigned(row) < tile.rows && unsigned(col) < tile.cols;
        all_inside = all_inside && is;
        return is;
    };
    if (tile.words != nullptr && sink.mode == SinkMode::tiles) {
        each([&](int row, int col, const auto& value) {
            if (!inside(row, col)) return;
            hook_set(&tile.words[unsigned(row) * tile.ld + unsigned(col)], hook_kept_bits(hook_float(value)));
        });
    } else if (tile.words != nullptr) {
        each([&](int row, int col, const auto& value) {
            if (!inside(row, col)) return;
            hook_store_checked(sink, &tile.words[unsigned(row) * tile.ld + unsigned(col)], tile.conflicts,
                               hook_kept_bits(hook_float(value)));
        });
    } else if (tile.lost != nullptr) {
        unsigned long long lost = 0;
        HookPlace first = {0, 0};
        each([&](int row, int col, const auto&) {
            if (!inside(row, col)) return;
            if (lost++ == 0) first = {row, col};
        });
        hook_lose(block, kv_tile, tile.lost, lost, first);
    } else {
        HookPlace first = {hook_nowhere, hook_nowhere};
        hook_keep_statistics(tile.statistics, first, [&](const auto& add) {
            each([&](int row, int col, const auto& value) {
                if (first.row == hook_nowhere) first = {row, col};
                if (inside(row, col)) add(hook_float(value));
            });
        });
    }
    if (all_inside) return;
    const SinkStage& room = sink.stages[int(stage)];
    unsigned long long outside = 0;
    HookPlace first = {0, 0};
    each([&](int row, int col, const auto&) {
        const bool in_tile =
            unsigned(row) < unsigned(room.row.extent) && unsigned(col) < unsigned(room.col.extent);
        if (in_tile || row == hook_nowhere) return;
        if (outside++ == 0) first = {row, col};
    });
    hook_lose(block, kv_tile, &sink.counters->out_of_range[int(stage)], outside, first);
}

/// Records one element of a tile at its place in the tile.
template <class T>
TILESCOPE_HOOK void hook_value(const HookBlock& block, Stage stage, int kv_tile, int row, int col,
                               const T& value) {
    if (!block.keeps(stage)) return;
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (tile.rows == 0) return;
    hook_share(block, stage, kv_tile, tile, [&](const auto& visit) { visit(row, col, hook_float(value)); });
}

/// Records an element of which several threads hold a copy: copies that differ count as conflicts, in every
/// mode that keeps values.
template <class T>
TILESCOPE_HOOK void hook_replicated(const HookBlock& block, Stage stage, int kv_tile, int row, int col,
                                    const T& value) {
    if (!block.keeps(stage)) return;
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (tile.words != nullptr && unsigned(row) < tile.rows && unsigned(col) < tile.cols) {
        hook_store_checked(*block.sink, &tile.words[unsigned(row) * tile.ld + unsigned(col)], tile.conflicts,
                           hook_kept_bits(hook_float(value)));
    } else {
        hook_value(block, stage, kv_tile, row, col, value);
    }
}

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

/// Four neighbouring elements in memory.
template <class T>
struct alignas(4 * sizeof(T)) HookFour {
    T of[4];
};

/// Whether rows in memory can be read and kept four elements at once: a quarter of the loads and stores.
template <class T>
TILESCOPE_HOOK bool hook_goes_in_fours(const Sink& sink, const HookTile& tile, const T* data, int ld) {
    // The tiles of a stage begin where those of the one before it end.
    const bool aligned = reinterpret_cast<std::uintptr_t>(tile.words) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(data) % sizeof(HookFour<T>) == 0;
    return sink.mode < SinkMode::checked && aligned && ((tile.cols | tile.ld | unsigned(ld)) & 3u) == 0;
}

template <class T>
TILESCOPE_HOOK void hook_rows_in_fours(const HookTile& tile, int first_row, int rows, const T* data, int ld,
                                       int thread, int threads) {
    const int fours = int(tile.cols) / 4;
    const auto load = [&](int row, int four) {
        return *reinterpret_cast<const HookFour<T>*>(data + std::ptrdiff_t(row) * ld + four * 4);
    };
    if (tile.words != nullptr) {
        hook_walk(rows, fours, thread, threads, [&](int row, int four) {
            const HookFour<T> values = load(row, four);
            hook_set_four(&tile.words[unsigned(first_row + row) * tile.ld + unsigned(four) * 4],
                          hook_kept_bits(hook_float(values.of[0])), hook_kept_bits(hook_float(values.of[1])),
                          hook_kept_bits(hook_float(values.of[2])), hook_kept_bits(hook_float(values.of[3])));
        });
        return;
    }
    const HookPlace first = {first_row + thread / fours, thread % fours * 4};
    hook_keep_statistics(tile.statistics, first, [&](const auto& add) {
        hook_walk(rows, fours, thread, threads, [&](int row, int four) {
            const HookFour<T> values = load(row, four);
            add(hook_float(values.of[0]));
            add(hook_float(values.of[1]));
            add(hook_float(values.of[2]));
            add(hook_float(values.of[3]));
        });
    });
}

/// Records the calling thread's share of `rows` rows of a tile from `first_row` on, which lie in shared or
/// global memory: every `threads`-th element from `thread` on, row-major with leading dimension `ld`. Nothing
/// outside the tensor is read.
template <class T>
TILESCOPE_HOOK void hook_rows(const HookBlock& block, Stage stage, int kv_tile, int first_row, int rows,
                              const T* data, int ld, int thread, int threads) {
    if (!block.keeps(stage)) return;
    const Sink& sink = *block.sink;
    const bool in_tile =
        first_row >= 0 && rows >= 0 && first_row + rows <= sink.stages[int(stage)].row.extent;
    if (thread < 0 || threads < 1 || !in_tile) {
        hook_lose(block, kv_tile, &sink.counters->out_of_range[int(stage)], 1, {first_row, thread});
        return;
    }
    const HookTile tile = hook_find(block, stage, kv_tile);
    const int cols = int(tile.cols);
    const int rows_inside = first_row + rows < int(tile.rows) ? rows : int(tile.rows) - first_row;
    if (rows_inside <= 0 || cols == 0) return;
    if (tile.lost != nullptr) {
        unsigned long long lost = 0;
        hook_walk(rows_inside, cols, thread, threads, [&](int, int) { ++lost; });
        hook_lose(block, kv_tile, tile.lost, lost, {first_row + thread / cols, thread % cols});
        return;
    }
    if (hook_goes_in_fours(sink, tile, data, ld)) {
        hook_rows_in_fours(tile, first_row, rows_inside, data, ld, thread, threads);
        return;
    }
    hook_share(block, stage, kv_tile, tile, [&](const auto& visit) {
        hook_walk(rows_inside, cols, thread, threads, [&](int row, int col) {
            visit(first_row + row, col, data[std::ptrdiff_t(row) * ld + col]);
        });
    });
}

/// The same for a whole tile.
template <class T>
TILESCOPE_HOOK void hook_tile(const HookBlock& block, Stage stage, int kv_tile, const T* data, int ld,
                              int thread, int threads) {
    hook_rows(block, stage, kv_tile, 0, block.sink->stages[int(stage)].row.extent, data, ld, thread, threads);
}

}  // namespace tilescope
