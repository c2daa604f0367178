#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dump/schema.h"

namespace tilescope {

// Indices that a kernel may store its output with, in place of [batch][head][query][d].

/// What such an index is computed from.
enum class StoreVariable : std::uint8_t { batch, head, query, d, q_block, row, nothing };
inline constexpr std::size_t store_variables = std::size_t(StoreVariable::nothing) + 1;

/// The numbers of an element; row: of its tile.
using StorePlace = std::array<std::int64_t, store_variables>;

/// An index with four parts, from the outermost to the innermost one: ((a * extent + b) * extent + c) * extent + d.
struct OutputIndex {
    struct Part {
        StoreVariable variable = StoreVariable::nothing;
        std::function<std::int64_t(std::int64_t)> of{};  ///< of the variable; empty: itself
        bool is_within_tile = false;  ///< of the row, and added to the first row of the tile
        /// How far the part counts up: elements of the parts outside of it lie so many times as far apart.
        std::function<std::int64_t(const Problem&)> extent;
    };
    std::array<Part, 4> parts;
    std::string text;    ///< "[batch][head][d][query]"
    int parameters = 0;  ///< choices that were made

    std::int64_t address(const Problem& problem, const StorePlace& place) const;
};

/// Each of them is otherwise than it should be by one mistake: two parts exchanged, the extent of another array, padding,
/// another variable in a part, or a function of its own one. `is_row`: of an output without columns, such as lse.
std::vector<OutputIndex> other_output_indices(const Problem& problem, bool is_row);

}  // namespace tilescope
