#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "oracle/describe/expr.h"

namespace tilescope {

/// outer * stride + inner: where in the memory of a tile the term of a sum is read.
struct TermAddress {
    Expr outer;
    Expr inner;
    Expr stride{};             ///< 0: from a row of the tile to the next
    std::int64_t padding = 0;  ///< elements between the rows of the tile

    /// `cols`: those of the tile.
    std::int64_t at(const Place& place, std::int64_t cols) const {
        return outer.at(place) * stride_in(place, cols) + inner.at(place);
    }
    std::int64_t stride_in(const Place& place, std::int64_t cols) const {
        const std::int64_t by = stride.at(place);
        return by != 0 ? by : cols + padding;
    }
    bool has_own_stride() const { return stride == Expr(0); }
    /// The same for each number of a coordinate, from 0 on.
    void along(Coordinate coordinate, const Place& place, std::int64_t cols,
               std::span<std::int64_t> at) const;
    /// "[row ^ 12][col]", or "[41 * row + col]"; `cols`: those of the tile.
    std::string text(std::int64_t cols) const;
    int choices() const;
    bool takes(Coordinate coordinate) const { return outer.takes(coordinate) || inner.takes(coordinate); }
    /// Whether it never leaves a row of the tile: then it does not matter what is between the rows. `ranges`: the second is that
    /// of the columns.
    bool stays_in_rows(std::span<const CoordinateRange> ranges) const;
};

/// Addresses that differ from the right one, the first coordinate times the stride plus the second, in one thing: one of the two
/// is changed, or another coordinate is in its place, or they are in each other's place, or the stride is another one.
std::vector<TermAddress> other_term_addresses(std::span<const CoordinateRange> ranges,
                                              std::span<const Expr> strides);

}  // namespace tilescope
