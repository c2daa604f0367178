#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "oracle/solve/term_search.h"

namespace tilescope {

/// Results of which each takes the same terms from memory, with other factors: a row or a column of a product.
using TermLine = std::vector<TermResult>;

/// Addresses that leave the known memory for some of the terms, and at which the others are what the lines need, whatever
/// stands where nothing is known; those of the fewest numbers first, at most so many. Asked are addresses that the term's
/// number and the line's own one make. A line says nothing that has hardly more results than unknown numbers.
std::vector<TermRead> find_unknown_reads(const TermQuestion& question, std::span<const TermLine> lines,
                                         std::size_t most);

}  // namespace tilescope
