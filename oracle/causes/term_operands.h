#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/identify/term_search.h"

namespace tilescope {

/// What an index of an operand counts: rows of the result, its columns, or the terms.
enum class TermAxis : std::uint8_t { row, col, term };

/// An operand whose elements are the terms of a sum, or their factors.
struct TermOperand {
    Stage stage;
    std::string_view name;
    std::array<std::string_view, 3> names;  ///< of its row, its column, and of the third axis
    std::array<TermAxis, 3> axes;
    bool is_left = true;        ///< of the rows of the result
    bool ends_in_zeros = true;  ///< behind its last row, as staged operands do

    std::size_t term() const { return axes[0] == TermAxis::term ? 0 : 1; }
};
std::span<const TermOperand> all_term_operands();

/// The names of an index, of which those behind the third are of the tile.
struct TermNames {
    static constexpr std::size_t of_third = 2;
    static constexpr std::size_t of_tile = 3;
    std::array<std::string_view, of_tile + 3> all;

    explicit TermNames(const TermOperand& operand);
};

std::vector<std::int64_t> numbers_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                                     Eigen::Index col);
/// How far each number counts.
std::vector<std::int64_t> lengths_of(const TermOperand& operand, const Problem& problem);

/// The operand as it was staged; of a gradient that of the part.
Matrix matrix_of(const TermOperand& operand, const SearchedTile& site, std::size_t part);
std::size_t parts_of(const TermOperand& operand, const SearchedTile& site);
/// What the operand's tile holds; behind the end of a sequence zeros, or hidden scores. Rows of P that no query has are
/// not known.
TileMemory memory_of(const TermOperand& operand, const Problem& problem, const Matrix& known);

/// A result with the factors of its terms, in natural units, and what they are added to; not what the kernel got.
TermResult result_of(const TermOperand& operand, const SearchedTile& site, Eigen::Index row,
                     Eigen::Index col);

}  // namespace tilescope
