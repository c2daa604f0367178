#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "oracle/identify/index_formula.h"
#include "oracle/identify/index_part.h"

namespace tilescope {

/// A form of one number alone, of that name.
IndexFormula formula_of(IndexPart::Form form, std::string_view name, std::int64_t n = 0, std::int64_t k = 0);

/// What somebody may have written in place of a number `name` below `extent`, the simplest first. The results may lie
/// beyond the extent. Forms that leave every number as it is are left out.
std::vector<IndexFormula> index_forms(std::string_view name, std::int64_t extent);

/// Forms with one number, ascending up to `most`: x ^ n, min, max, x % n, x / n * n, the reverse order within n, x / n.
/// Ends where `visit` returns false.
void for_each_index_form(std::int64_t most, std::string_view name,
                         const std::function<bool(const IndexFormula&)>& visit);

}  // namespace tilescope
