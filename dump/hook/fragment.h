#pragma once

// Records a register fragment, with a layout of layouts.h. Values are an array in registers, an array of arrays, a WMMA
// fragment, a CuTe tensor, or Strided memory.

#include <cstdint>
#include <type_traits>
#include <utility>

#include "dump/hook/layouts.h"
#include "dump/hook/write.h"

namespace tilescope {

/// What values are, by what can be said of them.
template <class Values, class = void>
inline constexpr bool hook_is_wmma = false;
template <class Values>
inline constexpr bool
    hook_is_wmma<Values, std::void_t<decltype(std::declval<const Values&>().num_elements)>> = true;
template <class Values, class = void>
inline constexpr bool hook_has_constant_size = false;
template <class Values>
inline constexpr bool
    hook_has_constant_size<Values, std::void_t<std::integral_constant<int, int(Values::size)>>> = true;
/// Whether the type of size() says how many there are, as that of a CuTe tensor does.
template <class Values, class = void>
inline constexpr bool hook_has_constant_size_type = false;
template <class Values>
inline constexpr bool hook_has_constant_size_type<
    Values,
    std::void_t<std::integral_constant<int, int(decltype(std::declval<const Values&>().size())::value)>>> =
    true;
template <class Values, class = void>
inline constexpr bool hook_has_brackets = false;
template <class Values>
inline constexpr bool hook_has_brackets<Values, std::void_t<decltype(std::declval<const Values&>()[0])>> =
    true;
/// What layouts say of themselves: see layouts.h.
template <class Places, class = void>
inline constexpr int hook_run = 1;
template <class Places>
inline constexpr int hook_run<Places, std::void_t<decltype(Places::run)>> = Places::run;
template <class Places, class = void>
inline constexpr int hook_copies = 1;
template <class Places>
inline constexpr int hook_copies<Places, std::void_t<decltype(Places::copies)>> = Places::copies;
template <class Places, class = void>
inline constexpr bool hook_is_grouped = false;
template <class Places>
inline constexpr bool hook_is_grouped<Places, std::void_t<decltype(Places::group)>> = true;

/// How many elements values have that may lie in registers, which the compiler knows; 0 for values in memory.
template <class Values>
TILESCOPE_HOOK constexpr int hook_registers() {
    if constexpr (std::is_array_v<Values>) {
        return int(sizeof(Values) / sizeof(std::remove_all_extents_t<Values>));
    } else if constexpr (hook_is_wmma<Values>) {
        return Values::num_elements;
    } else if constexpr (hook_has_constant_size<Values>) {
        return Values::size;
    } else if constexpr (hook_has_constant_size_type<Values>) {
        return int(decltype(std::declval<const Values&>().size())::value);
    } else {
        return 0;
    }
}

/// Elements that a thread holds, and the i-th of them.
template <class Values>
TILESCOPE_HOOK constexpr int hook_size(const Values& values) {
    if constexpr (hook_registers<Values>() > 0) {
        return hook_registers<Values>();
    } else {
        return int(values.size());
    }
}

template <class Values>
TILESCOPE_HOOK decltype(auto) hook_element_of(const Values& values, int i) {
    if constexpr (std::is_array_v<Values>) {
        if constexpr (std::is_array_v<std::remove_extent_t<Values>>) {
            constexpr int inner = int(sizeof(values[0]) / sizeof(std::remove_all_extents_t<Values>));
            return hook_element_of(values[i / inner], i % inner);
        } else {
            // In brackets: by reference.
            return (values[i]);
        }
    } else if constexpr (hook_is_wmma<Values>) {
        return values.x[i];
    } else if constexpr (hook_has_brackets<Values>) {
        return values[i];
    } else {
        return values(i);
    }
}

/// `run` neighbouring elements from the i-th on: what values in memory read at once by `run_at`, and of others each
/// as it is asked for.
template <class Values, class = void>
inline constexpr bool hook_reads_runs = false;
template <class Values>
inline constexpr bool
    hook_reads_runs<Values, std::void_t<decltype(std::declval<const Values&>().run_at(0)[0])>> = true;
template <class Values>
struct HookRun {
    const Values& values;
    int first;
    TILESCOPE_HOOK decltype(auto) operator[](int i) const { return hook_element_of(values, first + i); }
};
template <class Values>
TILESCOPE_HOOK auto hook_run_at(const Values& values, int i) {
    if constexpr (hook_reads_runs<Values>) {
        return values.run_at(i);
    } else {
        return HookRun<Values>{values, i};
    }
}

/// The table of a WMMA accumulator's shape and type: what Capture fills and a fragment reads.
template <template <class, int, int, int, class, class> class Fragment, class Use, int m, int n, int k,
          class T, class Order>
TILESCOPE_HOOK constexpr int wmma_table_of(const Fragment<Use, m, n, k, T, Order>&) {
    static_assert(
        m * n == 256 && (m == 16 || m == 32 || m == 8),
        "WmmaAccumulator: the fragment is no WMMA accumulator of 16x16, 32x8 or 8x32 elements; hook it "
        "through TILESCOPE_VALUE");
    return (m == 16 ? 0 : m == 32 ? 1 : 2) * 2 + (sizeof(T) == 4 ? 0 : 1);
}

/// A WMMA accumulator's places, by its table.
struct WmmaPlaces {
    fragments::WmmaAccumulator corner;
    int table;
    unsigned lane;
};
template <class Values>
TILESCOPE_HOOK WmmaPlaces hook_places(const Values& values, fragments::WmmaAccumulator corner) {
#ifdef __CUDA_ARCH__
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
#else
    const unsigned lane = 0;
#endif
    return {corner, wmma_table_of(values), lane};
}
template <class Values, class Places>
TILESCOPE_HOOK Places hook_places(const Values&, const Places& places) {
    return places;
}

template <class Places>
TILESCOPE_HOOK HookPlace hook_place(const Sink&, const Places& places, int i) {
    return places(i);
}
TILESCOPE_HOOK HookPlace hook_place(const Sink& sink, const WmmaPlaces& places, int i) {
    const int at = sink.wmma_places[(unsigned(places.table) * 32 + places.lane) * wmma_values + unsigned(i)];
    return {places.corner.row + at / 256, places.corner.col + at % 256};
}

/// Stores `run` neighbouring elements, as many at once as their place is a multiple of.
template <int run, class Bits>
TILESCOPE_HOOK void hook_store_run(std::uint32_t* words, const Bits& bits) {
    constexpr int at_once = run % 4 == 0 ? 4 : run % 2 == 0 ? 2 : 1;
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < run; i += at_once) {
        if constexpr (at_once == 4) {
            hook_set_four(words + i, bits(i), bits(i + 1), bits(i + 2), bits(i + 3));
        } else if constexpr (at_once == 2) {
            hook_set_two(words + i, bits(i), bits(i + 1));
        } else {
            hook_set(words + i, bits(i));
        }
    }
}

/// Whether registers can be stored as they are. A NaN among them may look like the unwritten marker; that a sum of them
/// is NaN takes an instruction each, in four sums that do not wait for each other.
template <int size, class Values>
TILESCOPE_HOOK bool hook_no_nan(const Values& values) {
    using Element = std::decay_t<decltype(hook_element_of(values, 0))>;
    if constexpr (hook_never_unwritten<Element>) return true;
    float sums[4] = {};
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < size; ++i) sums[i % 4] += hook_float(hook_element_of(values, i));
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    return sum == sum;
}

/// Stores registers without a loop: `first` points to the place of the first of them.
template <int size, class Values, class Places>
TILESCOPE_HOOK void hook_store_registers(std::uint32_t* first, int pitch, const Values& values,
                                         const Places& places) {
    constexpr int run = hook_run<Places>;
    const HookPlace from = places(0);
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < size; i += run) {
        const HookPlace place = places(i);
        hook_store_run<run>(first + (place.row - from.row) * pitch + (place.col - from.col),
                            [&](int j) { return hook_bits(hook_float(hook_element_of(values, i + j))); });
    }
}

/// Keeps values in memory, run after run, where runs lie at multiples of their length. Returns whether that was so.
template <class Values, class Places>
TILESCOPE_HOOK bool hook_keep_runs(const HookBlock& block, Stage stage, int kv_tile, const Values& values,
                                   const Places& places) {
    const HookTile tile = hook_find(block, stage, kv_tile);
    constexpr int run = hook_run<Places>;
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    // Memory begins at a multiple of 8.
    const bool in_runs = (room.col.extent | int(tile.cols)) % run == 0 &&
                         (run % 4 != 0 || reinterpret_cast<std::uintptr_t>(room.words) % 16 == 0);
    if (tile.fate != HookFate::kept || sink.mode >= SinkMode::checked || !in_runs) return false;
    unsigned long long outside = 0;
    HookPlace first_outside = {0, 0};
    const auto each_run = [&](const auto& use) {
        const int size = hook_size(values);
        outside = 0;
        TILESCOPE_HOOK_ROLLED
        for (int i = 0; i < size; i += run) {
            const HookPlace place = places(i);
            if (unsigned(place.row) < tile.rows && unsigned(place.col) < tile.cols) {
                use(i, place);
            } else if (unsigned(place.row) >= unsigned(room.row.extent) ||
                       unsigned(place.col) >= unsigned(room.col.extent)) {
                if (place.row == hook_nowhere) continue;
                if (outside == 0) first_outside = place;
                outside += run;
            }
        }
    };
    if (sink.mode == SinkMode::statistics) {
        hook_keep_statistics(tile.statistics(room), places(0), [&](const auto& add) {
            each_run([&](int i, HookPlace) {
                const auto elements = hook_run_at(values, i);
                TILESCOPE_HOOK_UNROLL
                for (int j = 0; j < run; ++j) add(hook_float(elements[j]));
            });
        });
    } else {
        std::uint32_t* const words = tile.words(room);
        each_run([&](int i, HookPlace place) {
            const auto elements = hook_run_at(values, i);
            hook_store_run<run>(words + hook_place_in(room, place.row, place.col),
                                [&](int j) { return hook_kept_bits(elements[j]); });
        });
    }
    if (outside != 0) {
        hook_lose(block, kv_tile, &sink.counters->out_of_range[int(stage)], outside, first_outside);
    }
    return true;
}

/// Records values that a loop can index: memory, or copies of registers.
template <class Values, class Places>
TILESCOPE_HOOK void hook_fragment_in_loop(const HookBlock& block, Stage stage, int kv_tile,
                                          const Values& values, int size, const Places& places) {
    constexpr bool compared = hook_copies<Places> != 1;
    // A conflict is where the copies were: there is nothing to wait for.
    if constexpr (!compared) hook_wait(block, int(stage), kv_tile);
    if constexpr (hook_run<Places> != 1 && !std::is_pointer_v<Values>) {
        if (hook_keep_runs(block, stage, kv_tile, values, places)) return;
    }
    hook_share<compared ? HookCopies::compared : HookCopies::none>(
        block, stage, kv_tile, [&](const auto& visit) {
            TILESCOPE_HOOK_ROLLED
            for (int i = 0; i < size; ++i) {
                const HookPlace place = hook_place(*block.sink, places, i);
                visit(place.row, place.col, hook_element_of(values, i));
            }
        });
}

/// Adds the statistics of registers that are finite and not 0. Returns whether they were.
template <int size, class Values>
TILESCOPE_HOOK bool hook_count_registers(TileStatistics* into, HookPlace first, const Values& values) {
    HookStatistics part;
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < size; ++i) part.add(hook_float(hook_element_of(values, i)));
    if (!part.plain()) return false;
    hook_merge(into, part, first);
    return true;
}

/// Stores registers as they are; copies in neighbouring lanes have to be the same. Returns whether that was so.
template <int size, class Values, class Places>
TILESCOPE_HOOK bool hook_store_copies(std::uint32_t* first, int pitch, bool whole, const Values& values,
                                      const Places& places) {
    if constexpr (hook_copies<Places> != 1) {
        if (!hook_whole_warp(whole)) return false;
        bool differ = false;
        TILESCOPE_HOOK_UNROLL
        for (int i = 0; i < size; ++i) {
            const std::uint32_t bits = hook_bits(hook_float(hook_element_of(values, i)));
            differ = hook_copies_differ<hook_copies<Places>>(bits) || differ;
        }
        whole = !differ;
    }
    if (whole) hook_store_registers<size>(first, pitch, values, places);
    return whole;
}

/// Whether all places from the first to the last are of rows that the tile has and the tensor has not: nothing is kept.
TILESCOPE_HOOK bool hook_in_tail(const HookWhole& tile, const SinkStage& room, HookPlace first,
                                 HookPlace last) {
    const unsigned rows = unsigned(room.row.extent), cols = unsigned(room.col.extent);
    const unsigned least =
        unsigned(first.row) < unsigned(last.row) ? unsigned(first.row) : unsigned(last.row);
    return least >= tile.rows && unsigned(first.row) < rows && unsigned(last.row) < rows &&
           unsigned(first.col) < cols && unsigned(last.col) < cols;
}

/// Records registers whose places rise from the first to the last, where all of them are inside a tile that has room.
/// Returns whether that was so.
template <int size, class Values, class Places>
TILESCOPE_HOOK bool hook_whole_fragment(const HookBlock& block, Stage stage, int kv_tile,
                                        const Values& values, const Places& places) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const HookWhole tile = hook_whole(block, stage, kv_tile);
    const HookPlace first = places(0);
    const HookPlace last = places(size - 1);
    const bool inside = tile.holds(first) && tile.holds(last);
    if constexpr (hook_copies<Places> == 1) {
        if (tile.is && hook_in_tail(tile, room, first, last)) return true;
    }
    if (sink.mode == SinkMode::statistics) {
        return inside && hook_count_registers<size>(room.statistics + tile.slot, first, values);
    }
    const bool in_runs = (first.col | room.col.extent) % hook_run<Places> == 0;
    const bool stored = inside && sink.mode == SinkMode::tiles && in_runs && hook_no_nan<size>(values);
    return hook_store_copies<size>(tile.word(room, first), room.col.extent, stored, values, places);
}

/// Registers that are stored without a loop wherever they lie; more would take long to compile.
inline constexpr int hook_most_unrolled = 16;

/// Records registers whose places may be anywhere, where all of them are inside a tile that has room. Returns whether that
/// was so; if not, some may have been stored.
template <int size, class Values, class Places>
TILESCOPE_HOOK bool hook_scattered_fragment(const HookBlock& block, Stage stage, int kv_tile,
                                            const Values& values, const Places& places) {
    const Sink& sink = *block.sink;
    const SinkStage& room = sink.stages[int(stage)];
    const HookWhole tile = hook_whole(block, stage, kv_tile);
    bool all = true;
    if (sink.mode == SinkMode::tiles) {
        TILESCOPE_HOOK_UNROLL
        for (int i = 0; i < size; ++i) {
            const HookPlace place = hook_place(sink, places, i);
            if (tile.holds(place)) {
                hook_set(tile.word(room, place), hook_kept_bits(hook_element_of(values, i)));
            } else {
                all = false;
            }
        }
        return all;
    }
    TILESCOPE_HOOK_UNROLL
    for (int i = 0; i < size; ++i) all = all && tile.holds(hook_place(sink, places, i));
    return all && sink.mode == SinkMode::statistics &&
           hook_count_registers<size>(room.statistics + tile.slot, hook_place(sink, places, 0), values);
}

/// Records copies of registers, which have no fast way.
template <class Places>
TILESCOPE_HOOK_APART void hook_copies_in_loop(HookBlock block, Stage stage, int kv_tile, const float* values,
                                              int size, Places places) {
    hook_fragment_in_loop(block, stage, kv_tile, values, size, places);
}

/// Records the calling thread's part of a tile.
template <class Values, class Places>
TILESCOPE_HOOK void hook_fragment(const HookBlock& block, Stage stage, int kv_tile, const Values& values,
                                  const Places& given) {
    if constexpr (hook_is_grouped<Places> && std::is_array_v<Values>) {
        static_assert(sizeof(Values) / sizeof(std::remove_all_extents_t<Values>) % Places::group == 0,
                      "the accumulator is not whole: pass all values that a lane holds of its tiles");
    }
    if (!block.keeps(stage)) return;
    const auto places = hook_places(values, given);
    constexpr int size = hook_registers<Values>();
    if constexpr (size == 0) {
        hook_fragment_in_loop(block, stage, kv_tile, values, hook_size(values), places);
    } else {
        if constexpr (hook_is_grouped<Places>) {
            if (hook_whole_fragment<size>(block, stage, kv_tile, values, places)) return;
        }
        if constexpr (!hook_is_grouped<Places> && size <= hook_most_unrolled) {
            if (hook_scattered_fragment<size>(block, stage, kv_tile, values, places)) return;
        }
        // A loop cannot index registers: they are copied to local memory.
        float copy[size];
        TILESCOPE_HOOK_UNROLL
        for (int i = 0; i < size; ++i) copy[i] = hook_float(hook_element_of(values, i));
        const float* const copied = copy;
        // A call where the fast way is short costs kernels 4 % that record nothing; a loop for each large one, the compiler.
        if constexpr (size <= hook_most_unrolled) {
            hook_fragment_in_loop(block, stage, kv_tile, copied, size, places);
        } else {
            hook_copies_in_loop(block, stage, kv_tile, copied, size, places);
        }
    }
}

}  // namespace tilescope
