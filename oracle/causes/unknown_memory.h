#pragma once

#include "oracle/causes/product_results.h"
#include "oracle/causes/term_operands.h"
#include "oracle/solve/unknown_reads.h"

namespace tilescope {

// What a product takes from memory of which nothing is known, as between the rows of a staged tile, is solved for from
// the tile that the kernel left: as many of its elements as there are such numbers tell them, and the others have to agree.

/// Whether the stage is a product whose unknown numbers can be solved for.
bool is_product_of_operands(Stage stage);

/// The results of the line of the tile that takes row or column `line` of the operand, as far as they are known.
TermLine line_of_results(const TermOperand& operand, const SearchedTile& site, const SlotNumbers& results,
                         Eigen::Index line);

/// Fills in the NaN of `taken`, the operand as the product takes it: what the dumped tile tells, otherwise 0. `site` holds
/// the right operands.
void fill_unknown(const TermOperand& operand, const SearchedTile& site, Matrix& taken);

/// Widens the errors of the product's tile by what the numbers may be off by that fill_unknown() finds, and leaves open what
/// was spent to find them. `taken`: NaN where it is not known.
void leave_open_unknown(const TermOperand& operand, const SearchedTile& site, const Matrix& taken,
                        Matrix& error);

}  // namespace tilescope
