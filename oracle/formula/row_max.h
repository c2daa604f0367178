#pragma once

#include <functional>

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"

namespace tilescope {

/// Running maximum after the tile, R x 1: max_interval().
/// Types: float64 estimates of a float32 maximum.
/// Max error: a maximum rounds nothing; that of the scores, of their conversion where m is kept in other
/// units than s, and half the stale threshold where m may stay behind.
/// Valid range: every score; -inf where no key was seen, NaN and infinitely wide where a score is NaN.
Estimate row_max(const HeadCall& call, const Estimate& m_before, const Estimate& s);

/// The parts of its error in one row. `of_score` says what the score of a key may be off by; `begins`: no KV
/// tile of the split came before.
BudgetTerms max_terms(const HeadCall& call, const Estimate& m_before, const Estimate& s, Eigen::Index row,
                      bool begins, const std::function<BudgetTerms(Eigen::Index key)>& of_score);

}  // namespace tilescope
