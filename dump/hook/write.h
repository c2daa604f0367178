#pragma once

// What the macros of hook.h call: include that one.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dump/hook/device.h"
#include "dump/hook/sink.h"
#include "dump/hook/statistics.h"

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

/// In place of a block of which nothing is recorded: its hooks are empty.
struct HookNothing {
    constexpr operator HookBlock() const { return {nullptr, 0, -1, 0, 0, 0}; }
    TILESCOPE_HOOK constexpr bool keeps(Stage) const { return false; }
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

/// What becomes of a tile's elements.
enum class HookFate : std::uint8_t {
    kept,
    skipped,  ///< it is not selected
    dropped,  ///< it is selected, and there is no room for it
    outside   ///< the problem has no such tile
};

/// Where the sink keeps one tile.
struct HookTile {
    HookFate fate;
    std::uint64_t slot;
    unsigned rows;  ///< the part inside the tensor; the whole tile where it is outside
    unsigned cols;

    // The room is no member: what is read through a pointer in memory the compiler does not know to be
    // constant.
    TILESCOPE_HOOK std::uint32_t* words(const SinkStage& room) const {
        return room.words + slot * room.elements;
    }
    TILESCOPE_HOOK std::uint32_t* conflicts(const SinkStage& room) const { return room.conflicts + slot; }
    TILESCOPE_HOOK TileStatistics* statistics(const SinkStage& room) const { return room.statistics + slot; }
};

/// Where an element lies among the words of its tile.
TILESCOPE_HOOK unsigned hook_place_in(const SinkStage& room, int row, int col) {
    return unsigned(row) * unsigned(room.col.extent) + unsigned(col);
}

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

/// The part of a tile that lies inside the tensor, along one axis. Unsigned: the coordinates may be anything.
TILESCOPE_HOOK unsigned hook_extent(const SinkAxis& axis, int q_block, int kv_tile) {
    const auto inside = int(unsigned(axis.inside) - unsigned(q_block) * unsigned(axis.per_q_block) -
                            unsigned(kv_tile) * unsigned(axis.per_kv_tile));
    return unsigned(inside < axis.extent ? inside : axis.extent);
}

/// Slot of the query block, or of the head of dk and dv, that the tiles belong to; -1 where it is not
/// selected, -2 where the problem has no such block or head.
TILESCOPE_HOOK int hook_outer_slot(const HookBlock& block, const SinkStage& room) {
    const Sink& sink = *block.sink;
    // A block that is in the problem and not selected does not come here.
    if (room.per_q_block) return block.slot < 0 ? -2 : block.slot;
    const bool in_problem =
        unsigned(block.batch) < unsigned(sink.batch) && unsigned(block.head) < unsigned(sink.dkv_heads);
    return in_problem ? sink.dkv_head_slots[block.batch * sink.dkv_heads + block.head] : -2;
}

/// One function with one return: each further return costs moves and tests on the others.
TILESCOPE_HOOK HookTile hook_find(const HookBlock& block, Stage stage, int kv_tile) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const int kv_index = room.per_kv_tile ? kv_tile : 0;
    const int outer_slot = hook_outer_slot(block, room);
    const bool in_problem = outer_slot != -2 && unsigned(kv_index) < unsigned(sink.kv_tiles);
    int kv_slot = kv_index;
    if (in_problem && room.per_kv_tile && !sink.every_kv_tile) kv_slot = sink.kv_tile_slots[kv_index];
    HookTile tile;
    tile.slot = std::uint64_t(unsigned(outer_slot)) * room.kv_slots + unsigned(kv_slot);
    tile.rows = in_problem ? hook_extent(room.row, block.q_block, kv_index) : unsigned(room.row.extent);
    tile.cols = in_problem ? hook_extent(room.col, block.q_block, kv_index) : unsigned(room.col.extent);
    const HookFate selected = tile.slot < room.capacity ? HookFate::kept : HookFate::dropped;
    tile.fate = !in_problem ? HookFate::outside : (outer_slot | kv_slot) < 0 ? HookFate::skipped : selected;
    return tile;
}

/// A tile that surely has room, where `is`: what most hooks come to, found in a third of the instructions of hook_find.
struct HookWhole {
    bool is;
    unsigned slot;
    unsigned rows;  ///< the part inside the tensor
    unsigned cols;

    TILESCOPE_HOOK bool holds(HookPlace place) const {
        return is && unsigned(place.row) < rows && unsigned(place.col) < cols;
    }
    TILESCOPE_HOOK std::uint32_t* word(const SinkStage& room, HookPlace place) const {
        return room.words + std::uint64_t(slot) * room.elements + hook_place_in(room, place.row, place.col);
    }
};
TILESCOPE_HOOK HookWhole hook_whole(const HookBlock& block, Stage stage, int kv_tile) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const int kv_index = room.per_kv_tile ? kv_tile : 0;
    return {room.whole && block.slot >= 0 && unsigned(kv_index) < unsigned(sink.kv_tiles),
            unsigned(block.slot) * room.kv_slots + unsigned(kv_index),
            hook_extent(room.row, block.q_block, kv_index), hook_extent(room.col, block.q_block, kv_index)};
}

/// Whether no value of the type, converted to float32, has the bits of the unwritten marker.
template <class T>
inline constexpr bool hook_never_unwritten = false;
#ifdef __CUDACC__
static_assert((unwritten_bits & 0x1fffu) != 0,
              "a float32 that was a __half or a __nv_bfloat16 ends in 13 zeros");
template <>
inline constexpr bool hook_never_unwritten<__half> = true;
template <>
inline constexpr bool hook_never_unwritten<__nv_bfloat16> = true;
#endif

/// Bits of an element as the sink keeps them: a NaN that looks like the unwritten marker becomes another.
template <class T>
TILESCOPE_HOOK std::uint32_t hook_kept_bits(const T& value) {
    const std::uint32_t bits = hook_bits(hook_float(value));
    return !hook_never_unwritten<T> && bits == unwritten_bits ? 0x7fffffffu : bits;
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

/// Stores by exchange, which returns what was there: of two racing threads the second sees the first one's
/// bits, so a conflict is counted whichever comes first.
TILESCOPE_HOOK void hook_store_checked(const Sink& sink, std::uint32_t* word, std::uint32_t* conflicts,
                                       std::uint32_t bits) {
    if (sink.writers != 0) hook_note_writer(word + sink.writers);
    const std::uint32_t before = hook_exchange(word, bits);
    if (before != unwritten_bits && before != bits) hook_count(conflicts, std::uint32_t(1));
}

/// Waits where the sink asks for it, so that `tile-run repeat` finds a barrier that is missing.
TILESCOPE_HOOK void hook_wait(const HookBlock& block, int place, int kv_tile) {
    const std::uint32_t seed = block.sink->jitter;
    if (seed != 0) hook_let_warp_wait(seed, unsigned(kv_tile) * 4096u + unsigned(place));
}

/// Counts elements that are not kept, the first of them at `first`.
TILESCOPE_HOOK_APART void hook_lose(HookBlock block, int kv_tile, SinkLoss* loss, unsigned long long elements,
                                    HookPlace first) {
    if (hook_count_from(&loss->elements, elements) != 0) return;
    const int place[] = {block.batch, block.head, block.q_block, kv_tile, first.row, first.col};
    for (int i = 0; i < 6; ++i) loss->first[i] = place[i];
}

/// What counts the elements of a tile that is not kept.
TILESCOPE_HOOK SinkLoss* hook_loss(const Sink& sink, Stage stage, const HookTile& tile) {
    const bool dropped = tile.fate == HookFate::dropped;
    return dropped ? &sink.counters->dropped[int(stage)] : &sink.counters->out_of_range[int(stage)];
}

/// Whether an element is one of several copies, each of which is recorded.
enum class HookCopies : std::uint8_t { none, compared };

/// Records the calling thread's elements of a tile one by one, in every mode and whatever becomes of the tile: `each`
/// is called with a function of (row, col, value) and calls it for every element. Copies that differ count as
/// conflicts in every mode that keeps values.
template <HookCopies copies = HookCopies::none, class Each>
TILESCOPE_HOOK void hook_share(const HookBlock& block, Stage stage, int kv_tile, const Each& each) {
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (tile.fate == HookFate::skipped) return;
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const bool kept = tile.fate == HookFate::kept;
    HookPlace first = {hook_nowhere, hook_nowhere}, first_lost = {0, 0}, first_outside = {0, 0};
    unsigned lost = 0, outside = 0;
    HookStatistics part;
    each([&](int row, int col, const auto& value) {
        if (first.row == hook_nowhere) first = {row, col};
        if (unsigned(row) < tile.rows && unsigned(col) < tile.cols) {
            if (!kept) {
                if (lost++ == 0) first_lost = {row, col};
            } else if (sink.mode == SinkMode::statistics) {
                part.add_any(hook_float(value));
            } else if (copies == HookCopies::none && sink.mode == SinkMode::tiles) {
                hook_set(tile.words(room) + hook_place_in(room, row, col), hook_kept_bits(value));
            } else {
                hook_store_checked(sink, tile.words(room) + hook_place_in(room, row, col),
                                   tile.conflicts(room), hook_kept_bits(value));
            }
            return;
        }
        // Inside the tile's shape it is a tail, which may be given.
        const bool in_tile =
            unsigned(row) < unsigned(room.row.extent) && unsigned(col) < unsigned(room.col.extent);
        if (in_tile || row == hook_nowhere) return;
        if (outside++ == 0) first_outside = {row, col};
    });
    if (part.written != 0) hook_merge(tile.statistics(room), part, first);
    if (lost != 0) hook_lose(block, kv_tile, hook_loss(sink, stage, tile), lost, first_lost);
    if (outside != 0) {
        hook_lose(block, kv_tile, &sink.counters->out_of_range[int(stage)], outside, first_outside);
    }
}

/// Records one element of a tile at its place in the tile.
template <class T>
TILESCOPE_HOOK void hook_value(const HookBlock& block, Stage stage, int kv_tile, int row, int col,
                               const T& value) {
    if (!block.keeps(stage)) return;
    if (block.sink->mode == SinkMode::tiles) {
        const HookWhole whole = hook_whole(block, stage, kv_tile);
        if (whole.holds({row, col})) {
            hook_set(whole.word(block.sink->stages[int(stage)], {row, col}), hook_kept_bits(value));
            return;
        }
    }
    hook_share(block, stage, kv_tile, [&](const auto& visit) { visit(row, col, hook_float(value)); });
}

/// Records an element of which several threads hold a copy.
template <class T>
TILESCOPE_HOOK void hook_replicated(const HookBlock& block, Stage stage, int kv_tile, int row, int col,
                                    const T& value) {
    if (!block.keeps(stage)) return;
    hook_share<HookCopies::compared>(block, stage, kv_tile,
                                     [&](const auto& visit) { visit(row, col, hook_float(value)); });
}

}  // namespace tilescope
