#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/identify/index_part.h"

namespace tilescope {

/// outer * stride + inner: where in the memory of a tile the term of a sum is read.
struct TermAddress {
    IndexPart outer{IndexPart::Form::same, 0};
    IndexPart inner{IndexPart::Form::same, 1};
    std::int64_t stride = 0;         ///< 0: from a row of the tile to the next
    std::string_view stride_name{};  ///< what the stride is called, where it is no number
    std::int64_t padding = 0;        ///< elements between the rows of the tile

    /// `cols`: those of the tile.
    std::int64_t of(IndexNumbers numbers, std::int64_t cols) const {
        return outer.of(numbers) * (stride != 0 ? stride : cols + padding) + inner.of(numbers);
    }
    /// "[row ^ 12][col]", or "[41 * row + col]"; `cols`: those of the tile.
    std::string text(IndexNames names, std::int64_t cols) const;
    int parameters() const;
    bool takes(std::size_t number) const { return outer.takes(number) || inner.takes(number); }
    /// Whether it never leaves a row of the tile: then it does not matter what is between the rows. `lengths`: of the
    /// numbers.
    bool stays_in_rows(std::span<const std::int64_t> lengths) const;
};

/// A stride that an author may have taken for another.
struct NamedStride {
    std::string_view name;  ///< empty: a number
    std::int64_t value = 0;
};

/// Addresses that differ from the right one in one thing: one of its two numbers is changed, or another of the numbers
/// in its place, or they are in each other's place, or the stride is another one. `lengths`: of the
/// numbers, one more than the greatest that each can be.
std::vector<TermAddress> other_term_addresses(std::span<const std::int64_t> lengths,
                                              std::span<const NamedStride> strides);

}  // namespace tilescope
