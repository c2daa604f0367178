#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/solve/term_search.h"

namespace tilescope {

/// What an index of an operand counts: rows of the result, its columns, or the terms.
enum class TermAxis : std::uint8_t { row, col, term };

/// An operand whose elements are the terms of a sum, or their factors.
struct TermOperand {
    Stage stage;
    std::string_view name;
    std::array<Coordinate, 3> coordinates;  ///< of its row, its column, and of the third axis
    std::array<TermAxis, 3> axes;
    bool is_left = true;        ///< of the rows of the result
    bool ends_in_zeros = true;  ///< behind its last row, as staged operands do

    bool has_terms_down() const { return axes[0] == TermAxis::term; }
    Coordinate term() const { return coordinates[has_terms_down() ? 0 : 1]; }
    Coordinate third() const { return coordinates[2]; }
    TermAddress right(std::int64_t padding = 0) const {
        return {coordinates[0], coordinates[1], {}, padding};
    }
};
std::span<const TermOperand> all_term_operands();

/// What the index of an operand's element is made of.
Place place_of_term(const TermOperand& operand, const SearchedTile& site, Eigen::Index row, Eigen::Index col);
/// How far each of them counts: the operand's rows, columns, and the others.
std::vector<CoordinateRange> ranges_of(const TermOperand& operand, const Problem& problem);

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
