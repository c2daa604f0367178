#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oracle/identify/index_part.h"

namespace tilescope {

/// An index into an array of four dimensions as kernels write it, ((a * B + b) * C + c) * D + d. The right one is made of
/// the first four numbers and the first three extents.
struct ArrayIndex {
    struct Extent {
        std::uint8_t name = 0;
        std::int64_t plus = 0;

        bool operator==(const Extent&) const = default;
    };
    std::array<IndexPart, 4> parts = {{{IndexPart::Form::same, 0},
                                       {IndexPart::Form::same, 1},
                                       {IndexPart::Form::same, 2},
                                       {IndexPart::Form::same, 3}}};
    std::array<Extent, 3> extents = {{{0}, {1}, {2}}};
    bool divides = false;  ///< the second part by the last number, as heads by those of a group
    bool in_tile = false;  ///< the third part counts from a tile's first row, the number before the last

    std::int64_t of(IndexNumbers numbers, std::span<const std::int64_t> extents_there) const;
    /// What is otherwise: "head * 2 in place of head".
    std::string text(IndexNames numbers, IndexNames names_of_extents) const;
    /// Numbers in it; at least the choice of what is otherwise.
    int parameters() const;
};

/// Where in an array the number of one element may stand.
struct ArrayElement {
    std::vector<std::int64_t> numbers;
    std::function<bool(std::int64_t address)>
        holds;  ///< whether its number stands there; never called beyond the array
};

/// Indices that are wrong in one number or one extent and that nearly all elements agree with, as far as their addresses
/// are within the array of `size` elements; those of the fewest numbers first, at most so many. `lengths`: of the numbers.
/// `divided`: the number that the last one divides, `row`: that of a row counted from its tile's first.
std::vector<ArrayIndex> find_array_indices(std::span<const ArrayElement> elements, std::int64_t size,
                                           std::span<const std::int64_t> lengths,
                                           std::span<const std::int64_t> extents, std::uint8_t divided,
                                           std::uint8_t row, std::size_t most);

}  // namespace tilescope
