#pragma once

#include <span>
#include <utility>
#include <vector>

#include "oracle/causes/walk.h"
#include "oracle/describe/expr.h"

namespace tilescope {

// The variables of formulas, where a replay has them.

/// Of an element, its row or the call: rows x columns, rows x 1, or 1 x 1; of var::divisor a column for each split.
/// `result`: what the stage holds, where that is asked for.
Estimate numbers_of(Variable variable, const SearchedTile& site, const Estimate* result = nullptr);

/// In the place of what a replay computes with.
void put(Variable variable, Estimate numbers, SearchedTile& site);

/// The variables that some expressions take, of each element of a tile.
class TileVariables {
 public:
    TileVariables(std::span<const Expr> expressions, const SearchedTile& site,
                  const Estimate* result = nullptr);
    const Variables& at(Eigen::Index row, Eigen::Index col);

 private:
    std::vector<std::pair<Variable, Estimate>> taken_;
    Variables variables_;
};

/// What an expression is for each of so many elements.
Estimate evaluated(const Expr& expr, const SearchedTile& site, Eigen::Index rows, Eigen::Index cols,
                   const Estimate* result = nullptr);

/// A kernel in which these variables become other numbers, all at once; var::result last.
Change rewritten(std::vector<Rewrite> rewrites);
/// The same of those but the result, in a tile.
void rewrite_inputs(std::span<const Rewrite> rewrites, SearchedTile& site);

}  // namespace tilescope
