#pragma once

#include <functional>
#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

/// The matrix of a site that is permuted.
using OperandOf = std::function<Matrix&(SearchedTile&)>;

/// The operand with its square blocks of 8, 16 or 32, or the whole tile, transposed.
std::vector<Candidate> transpositions(const OperandOf& operand);

/// The operand with its columns permuted: as the dump shows where it holds the operand itself, and by common
/// swizzles.
std::vector<Candidate> permutations(const Evidence& evidence, const OperandOf& operand);

/// The operand read from shared memory with another distance between its rows than it was stored with, from
/// its beginning, or from the corner of each fragment of 16 x 16. Behind each row lies padding, of zeros.
std::vector<Candidate> leading_dimensions(const Evidence& evidence, const OperandOf& operand);

/// The keys whose scores stand in each column of a score tile; empty where there is no such permutation.
std::vector<std::int64_t> score_permutation(const Evidence& evidence);

/// Smallest distance after which the permutation repeats itself.
std::int64_t period_of(const std::vector<std::int64_t>& places);

/// The permutation of columns that turns `expected` into `got`: place of each column. Empty where there is
/// none.
std::vector<std::int64_t> column_permutation(const Observation& seen);

}  // namespace tilescope
