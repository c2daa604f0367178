#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

/// Row and column of a tile at which an element takes its number.
struct ReadAddress {
    Expr row;
    Expr col;

    /// Of the tile's elements, row by row; `cols`: those of the tile.
    std::int64_t at(const Place& place, std::int64_t cols) const {
        return row.at(place) * cols + col.at(place);
    }
    /// "[row ^ 12][col]"
    std::string text() const { return Index{{row, col}, {}}.text(); }
    /// Numbers in it; at least the choice of what is otherwise.
    int choices() const { return std::max(row.choices() + col.choices(), 1); }
};

/// A tile of numbers as it lies in memory, row by row.
struct TileMemory {
    std::vector<double> values;  ///< NaN: not known
    std::int64_t cols = 0;

    /// NaN beyond the tile.
    double at(std::int64_t address) const {
        const bool is_inside = address >= 0 && address < std::int64_t(values.size());
        return is_inside ? values[std::size_t(address)] : std::numeric_limits<double>::quiet_NaN();
    }
};

/// What an element took.
struct TakenNumber {
    Place place;             ///< that the address is computed from
    std::size_t memory = 0;  ///< of its tile
    double got = 0;
    double error = 0;

    bool fits(double value) const {
        constexpr double rounding = 4e-6;
        if (value == got) return true;
        return std::isfinite(value) && std::abs(value - got) <= 3 * error + rounding * std::abs(value);
    }
};

/// The numbers of which the wrong address is looked for.
struct ReadQuestion {
    std::vector<CoordinateRange>
        ranges;  ///< of the tile's rows and columns, and what else the address may be made of
    std::vector<TileMemory> memories;
    std::vector<TakenNumber> numbers;

    /// Where they should be read.
    ReadAddress right() const { return {ranges[0].coordinate, ranges[1].coordinate}; }
};

/// The addresses, other than the right one in the row or in the column, or with both exchanged, that nearly all numbers agree with
/// as far as the memory is known: those of the fewest choices first, at most so many.
std::vector<ReadAddress> find_reads(const ReadQuestion& question, std::size_t most);

}  // namespace tilescope
