#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/causes/table.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// The matrix of a site that is read in another layout.
using OperandOf = std::function<Matrix&(SearchedTile&)>;

/// A tile as kernels misread it whole: by an index of the coordinates row and col, of two parts, or of one into its memory.
/// What lies beyond the tile is 0.
struct Layout {
    std::vector<CauseParameter> told;
    Index from;
    std::int64_t stored = 0;  ///< elements from a row of the memory to the next; 0: those of the tile
    int choices = 0;
};

/// Chunks of 8 elements, xored with the row: what a missing swizzle looks like from either side. `cols`: those of the tile.
std::vector<Layout> swizzled_layouts(std::int64_t cols);

/// Fragments of a matrix product whose elements lanes take, or of an accumulator store, one after the other.
enum class FragmentOperand : std::uint8_t { left, right, right_of_v, accumulator };
std::vector<Layout> linear_fragments(FragmentOperand operand);

Matrix read_in(const Layout& layout, const Matrix& tile);

/// A candidate for each layout. `told` comes before what the layout says.
std::vector<Candidate> read_in_layouts(const std::vector<Layout>& layouts, const OperandOf& operand,
                                       const std::vector<CauseParameter>& told = {});

}  // namespace tilescope
