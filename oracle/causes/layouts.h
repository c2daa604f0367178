#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/causes/table.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// The matrix of a site that is read in another layout.
using OperandOf = std::function<Matrix&(SearchedTile&)>;

/// A tile as kernels misread it whole: by an index [a][b] of the coordinates row and col. What lies beyond the tile is 0.
struct Layout {
    CauseParameter told;
    Index from;
};

/// Fragments of a matrix product whose elements lanes take, or of an accumulator store, one after the other.
enum class FragmentOperand : std::uint8_t { left, right, right_of_v, accumulator };
std::vector<Layout> linear_fragments(FragmentOperand operand);

Matrix read_in(const Layout& layout, const Matrix& tile);

/// A candidate for each layout. `told` comes before what the layout says.
std::vector<Candidate> read_in_layouts(const std::vector<Layout>& layouts, const OperandOf& operand,
                                       const CauseParameter& told);

}  // namespace tilescope
