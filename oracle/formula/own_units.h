#pragma once

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/output.h"

namespace tilescope {

// Kernels whose P or acc are not relative to the running maximum alone, as those of FlashAttention-1: P relative to
// the maximum of its own tile, P and acc divided by l, and m that goes on from the log-sum-exp before it. Natural
// units are those of a kernel without all of this.

/// Whether any of it is declared.
bool has_own_units(const Units& units);

/// The maximum of each row of the tile alone, R x 1.
/// Types and max error are those of row_max() with nothing before the tile.
Estimate tile_max(const HeadCall& call, const Estimate& s);

/// l of each row, R x 1: its lanes together.
Estimate whole_sum(const HeadCall& call, const Estimate& l);

/// m + ln l, R x 1, that a maximum goes on from.
/// Max error: those of m and l, the logarithm, and five roundings of the two.
/// Valid range: every state; -inf where no key was seen.
Estimate carried_lse(const HeadCall& call, const RunningState& before);

/// Adds to exp(m before - m) what it is off by where the kernel has it from carried_lse() over l.
void add_carried_error(const HeadCall& call, const RunningState& before, Estimate& factor);

/// What the rows are multiplied with, R x 1, for each row of `of`; with the errors of both.
Estimate times_rows(Estimate of, const Estimate& factor);

/// factor / l, R x 1, with a reciprocal and its product; 0 where l is 0.
Estimate over_sum(const Estimate& factor, const Estimate& l);

/// What acc is divided by, and what it was rescaled from.
struct Normalisation {
    const Estimate& l_before;  ///< R x 1
    const Estimate& l;         ///< after the tile, R x 1
    const Estimate& factor;    ///< exp(m before - m)
    const Estimate& acc_before;
};

/// acc / l after the tile, as a kernel has it that keeps acc so: the rescaled acc is multiplied with l before, and the
/// sum with the reciprocal of l.
/// Max error: that of acc over l, those of l and l before, and five roundings of both parts in the type of acc.
/// Valid range: every acc; 0 where l is 0.
Estimate normalised(const HeadCall& call, const Estimate& acc, const Normalisation& by);

/// The parts of its error at one element; `of_acc` are those of acc.
BudgetTerms normalised_terms(const HeadCall& call, double acc, const Normalisation& by, BudgetTerms of_acc,
                             Eigen::Index row, Eigen::Index col);

}  // namespace tilescope
