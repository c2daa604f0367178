#pragma once

// Where the elements of a register fragment lie: the last argument of TILESCOPE_FRAGMENT. A layout is
// anything that gives the HookPlace of element i of the calling thread; these are the layouts of the
// hardware, and rows and columns of one's own. What a layout may say of itself: `group`, that places rise or fall
// from the first value to the last, and that values come in such groups; `run`, how many values from a multiple of it
// on lie side by side in a row; `copies`, how many neighbouring lanes hold the same values.

#include <cstddef>
#include <tuple>

#include "dump/hook/write.h"

namespace tilescope {

namespace fragments {

/// Columns first, first + step, ... of one row.
struct Columns {
    static constexpr int group = 1;  ///< places rise or fall from the first value to the last
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
    static constexpr int run = 2;    ///< values from a multiple of it on that lie side by side in a row
    int row;
    int col;
    int lane;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return {row + lane / 4 + i % 4 / 2 * 8, col + i / 4 * 8 + lane % 4 * 2 + i % 2};
    }
};

/// The same for several tiles along m, of `tiles` along n each.
template <int tiles>
struct MmaAccumulators {
    static constexpr int group = tiles * 4;
    static constexpr int run = MmaAccumulator::run;
    int row;
    int col;
    int lane;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return MmaAccumulator{row + i / group * 16, col, lane}(i % group);
    }
};

/// What a lane keeps of the rows of such accumulators: one value for its row and one for the row 8 below, for each tile
/// along m. Four lanes share a row: each has a column of its own, for parts of a sum, or copies of column 0. `step` is
/// from one tile along m to the next: where warps take turns along m, 16 for each of them.
struct MmaRowParts {
    static constexpr int group = 2;
    int row;
    int lane;
    int step = 16;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return {row + i / 2 * step + i % 2 * 8 + lane / 4, lane % 4};
    }
};
struct MmaRowCopies {
    static constexpr int group = 2;
    static constexpr int copies = 4;  ///< in neighbouring lanes
    int row;
    int lane;
    int step = 16;

    TILESCOPE_HOOK HookPlace operator()(int i) const {
        return {row + i / 2 * step + i % 2 * 8 + lane / 4, 0};
    }
};

/// Accumulators of wgmma m64nN: N / 2 values a thread. `thread` counts within the warpgroup. Source: PTX ISA,
/// register fragments for wgmma.mma_async.
struct WgmmaAccumulator {
    static constexpr int group = 4;  ///< values that a thread holds of 8 columns
    static constexpr int run = MmaAccumulator::run;
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

/// The values themselves. Kernels name it that were written when hooks had to be told to record in a loop.
template <class Values>
TILESCOPE_HOOK const Values& rolled(const Values& values) {
    return values;
}

}  // namespace fragments

}  // namespace tilescope
