#pragma once

// Where the elements of a register fragment lie: the last argument of TILESCOPE_FRAGMENT. A layout is
// anything that gives the HookPlace of element i of the calling thread; those below are the layouts of the
// hardware, and rows and columns of one's own. Values are an array in registers, an array of arrays, a WMMA
// fragment, a CuTe tensor, or Strided memory.

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "dump/hook/write.h"

namespace tilescope {

namespace fragments {

/// Columns first, first + step, ... of one row.
struct Columns {
    int row;
    int first;
    int step = 1;

    TILESCOPE_HOOK HookPlace operator()(int i) const { return {row, first + i * step}; }
};

/// The place of an element that the thread does not hold.
TILESCOPE_HOOK HookPlace nowhere() {
    return {hook_nowhere, hook_nowhere};
}

/// float32 or float16 accumulators of mma.sync m16n8k16 and m16n8k8, tile after tile along n, four values
/// each. `row` and `col` are the corner of the first, `lane` counts within the warp. Source: PTX ISA, matrix
/// fragments for mma.m16n8k16.
struct MmaAccumulator {
    static constexpr int group = 4;  ///< values that a lane holds of one tile
    int row;
    int col;
    int lane;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return {row + lane / 4 + i % 4 / 2 * 8, col + i / 4 * 8 + lane % 4 * 2 + i % 2};
    }
};

/// Accumulators of wgmma m64nN: N / 2 values a thread. `thread` counts within the warpgroup. Source: PTX ISA,
/// register fragments for wgmma.mma_async.
struct WgmmaAccumulator {
    static constexpr int group = 4;  ///< values that a thread holds of 8 columns
    int row;
    int col;
    int thread;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return MmaAccumulator{row + thread / 32 % 4 * 16, col, thread % 32}(i);
    }
};

/// A WMMA accumulator whose corner is at row, col. Where its elements lie is not specified; the capture asks
/// the GPU that it runs on.
struct WmmaAccumulator {
    int row;
    int col;
};

/// A CuTe tensor's coordinates: the same partition of an identity tensor over the tile.
template <class Coordinates>
struct CuteCoordinates {
    const Coordinates& coordinates;
    int row;
    int col;

    TILESCOPE_HOOK explicit CuteCoordinates(const Coordinates& coordinates_, int row_ = 0, int col_ = 0)
        : coordinates(coordinates_), row(row_), col(col_) {}
    TILESCOPE_HOOK HookPlace operator()(int i) const {
        using std::get;  // without one in sight C++17 does not read get<0> as a template; CuTe has its own
        const auto place = coordinates(i);
        return {row + int(get<0>(place)), col + int(get<1>(place))};
    }
};

/// `size` values in shared or global memory, `step` elements from one to the next: those that the calling
/// thread wrote itself need no barrier before the hook.
template <int size_, class T>
struct Strided {
    static constexpr int size = size_;
    const T* data;
    int step;

    TILESCOPE_HOOK T operator[](int i) const { return data[std::ptrdiff_t(i) * step]; }
};
template <int size, class T>
TILESCOPE_HOOK Strided<size, T> strided(const T* data, int step) {
    return {data, step};
}

/// Values that are recorded in a loop instead of unrolled code: smaller and with fewer registers, but slower.
/// A loop cannot index registers, so arrays, and values whose type has a static constant `size`, are first
/// copied to local memory, in blocks that record something of them. Other values are read in place. That is
/// right for memory; a CuTe tensor in registers would lie in local memory all along: copy it to an array
/// first.
template <class Values>
struct Rolled {
    const Values& values;
};
template <class Values>
TILESCOPE_HOOK Rolled<Values> rolled(const Values& values) {
    return {values};
}

}  // namespace fragments

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
template <class Values, class = void>
inline constexpr bool hook_has_brackets = false;
template <class Values>
inline constexpr bool hook_has_brackets<Values, std::void_t<decltype(std::declval<const Values&>()[0])>> =
    true;
template <class Places, class = void>
inline constexpr bool hook_is_grouped = false;
template <class Places>
inline constexpr bool hook_is_grouped<Places, std::void_t<decltype(Places::group)>> = true;

/// Elements that a thread holds, and the i-th of them.
template <class Values>
TILESCOPE_HOOK constexpr int hook_size(const Values& values) {
    if constexpr (std::is_array_v<Values>) {
        return int(sizeof(Values) / sizeof(std::remove_all_extents_t<Values>));
    } else if constexpr (hook_is_wmma<Values>) {
        return Values::num_elements;
    } else if constexpr (hook_has_constant_size<Values>) {
        return Values::size;
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

/// How many elements an array or a type with a constant `size` has: rolled() copies them. 0 for others.
template <class Values>
TILESCOPE_HOOK constexpr int hook_registers() {
    if constexpr (std::is_array_v<Values>) {
        return int(sizeof(Values) / sizeof(std::remove_all_extents_t<Values>));
    } else if constexpr (hook_has_constant_size<Values>) {
        return Values::size;
    } else {
        return 0;
    }
}

/// Records the calling thread's part of a tile in a loop.
template <class Values, class Places>
TILESCOPE_HOOK void hook_fragment(const HookBlock& block, Stage stage, int kv_tile,
                                  const fragments::Rolled<Values>& rolled, const Places& places) {
    if (!block.keeps(stage)) return;
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (tile.fate == HookFate::skipped) return;
    const auto record = [&](const auto& values, int size) {
        hook_share(block, stage, kv_tile, tile, [&](const auto& visit) {
            TILESCOPE_HOOK_ROLLED
            for (int i = 0; i < size; ++i) {
                const HookPlace place = places(i);
                visit(place.row, place.col, hook_element_of(values, i));
            }
        });
    };
    if constexpr (constexpr int size = hook_registers<Values>(); size > 0) {
        std::decay_t<decltype(hook_element_of(rolled.values, 0))> copy[size];
        TILESCOPE_HOOK_UNROLL
        for (int i = 0; i < size; ++i) copy[i] = hook_element_of(rolled.values, i);
        record(copy, size);
    } else {
        record(rolled.values, hook_size(rolled.values));
    }
}

/// Records the calling thread's part of a tile in registers.
template <class Values, class Places>
TILESCOPE_HOOK void hook_fragment(const HookBlock& block, Stage stage, int kv_tile, const Values& values,
                                  const Places& given) {
    if constexpr (hook_is_grouped<Places> && std::is_array_v<Values>) {
        static_assert(sizeof(Values) / sizeof(std::remove_all_extents_t<Values>) % Places::group == 0,
                      "the accumulator is not whole: pass all values that a lane holds of its tiles");
    }
    if (!block.keeps(stage)) return;
    const HookTile tile = hook_find(block, stage, kv_tile);
    if (tile.fate == HookFate::skipped) return;
    const auto places = hook_places(values, given);
    hook_share(block, stage, kv_tile, tile, [&](const auto& visit) {
        // In full: an array that is indexed with a variable leaves the registers.
        TILESCOPE_HOOK_UNROLL
        for (int i = 0; i < hook_size(values); ++i) {
            const HookPlace place = hook_place(*block.sink, places, i);
            visit(place.row, place.col, hook_element_of(values, i));
        }
    });
}

}  // namespace tilescope
