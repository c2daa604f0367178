#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "oracle/identify/index_part.h"

namespace tilescope {

/// The numbers that an index into an array of heads may be made of, behind the four that count its own dimensions.
enum class ArrayNumber : std::uint8_t { head = 4, row, q_block, kv_tile, first_row, block, group };

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
    /// What is made of a part before it is one of the array.
    enum class Made : std::uint8_t {
        whole,
        of_group,  ///< the second part is divided by the group: it counts query heads
        of_row,    ///< the third part counts from the tile's first row
        of_tile    ///< the third part counts tiles: it is multiplied with the block, and `added` is added
    };
    Made made = Made::whole;
    ArrayNumber added = ArrayNumber::row;
    bool is_layout = false;  ///< the extents are in the order of the parts: another array, rightly read

    std::int64_t of(IndexNumbers numbers, std::span<const std::int64_t> extents_there) const;
    /// What is otherwise: "head * 2 in place of head"; of another layout all of it: "[batch][query][head][d]".
    std::string text(IndexNames numbers, IndexNames names_of_extents) const;
    /// Numbers in it; at least the choice of what is otherwise. A layout has none.
    int parameters() const;
};

/// Where in an array the number of one element may stand.
struct ArrayElement {
    std::vector<std::int64_t> numbers;
    std::function<bool(std::int64_t address)>
        holds;  ///< whether its number stands there; never called beyond the array
};

/// Indices that are wrong in one number or one extent and that nearly all elements agree with, as far as their addresses
/// are within the array of `size` elements; those of the fewest numbers first, at most so many. `lengths`: of the numbers,
/// 1 of those that count nothing. `extents`: of the second to the fourth dimension, others, and last of the first
/// dimension. `tile`: the number of the tiles that the rows are counted in.
std::vector<ArrayIndex> find_array_indices(std::span<const ArrayElement> elements, std::int64_t size,
                                           std::span<const std::int64_t> lengths,
                                           std::span<const std::int64_t> extents, ArrayNumber tile,
                                           std::size_t most);

}  // namespace tilescope
