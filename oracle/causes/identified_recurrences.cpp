// What the running state is added up from, and what it is rescaled by, in place of before * exp(m_before - m) + sum.

#include <algorithm>

#include "oracle/causes/combinations.h"
#include "oracle/causes/curves.h"
#include "oracle/causes/slots.h"

namespace tilescope {

namespace {

Variable before_of(Stage stage) {
    return stage == Stage::l ? var::l_before : var::acc_before;
}

std::vector<Candidate> state_of_other_terms(const Evidence& evidence) {
    const Expr before = before_of(evidence.acts);
    const Expr factor = var::factor;
    return combinations(
        evidence, {"becomes",
                   var::result,
                   {before * factor, before, before * factor * factor, var::sum, factor, var::sum * factor},
                   {1, 0, 0, 1, 0, 0}});
}

/// A function of the factor, or of its logarithm.
void add_functions(const Evidence& evidence, std::vector<Candidate>& candidates) {
    const Slot& slot = *std::ranges::find(all_slots(), var::factor, &Slot::variable);
    std::vector<CurvePoint> points;
    std::vector<CurvePoint> exponents;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        const SlotNumbers numbers = numbers_of(slot, seen);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const bool is_wrong = seen.is_wrong(i, j);
                if (!numbers.is_known(i, j) || !thinned.takes(is_wrong)) continue;
                const double x = numbers.right(i, 0);
                const double got = numbers.taken(i, j);
                points.push_back({x, numbers.error(i, j), got, is_wrong});
                if (x > 0 && got > 0 && numbers.error(i, j) < 0.1 * got)
                    exponents.push_back({std::log(x), numbers.error(i, j) / got, std::log(got), is_wrong});
            }
        }
    }
    const auto passes = [&](bool is_exponent) {
        return [=](const Curve& curve) {
            return Change{.inputs = [=](SearchedTile& site) {
                for (Eigen::Index i = 0; i < site.factor.value.rows(); ++i) {
                    double& factor = site.factor.value(i, 0);
                    double& error = site.factor.error(i, 0);
                    if (site.before.m.value(i, 0) == -infinity) continue;
                    const Uncertain x = is_exponent ? logarithm({factor, error}) : Uncertain{factor, error};
                    const Uncertain passed = passed_through(curve, x);
                    const Uncertain becomes = is_exponent ? exponential(passed) : passed;
                    factor = becomes.value;
                    error = becomes.error;
                }
            }};
        };
    };
    CurveCandidates curves;
    add_curves(evidence, points, "factor", passes(false), curves);
    add_curves(evidence, exponents, "log(factor)", passes(true), curves);
    for (Candidate& candidate : curves.all()) candidates.push_back(std::move(candidate));
}

/// Where nothing came before it is computed all the same: 0 * infinity is NaN.
std::vector<Candidate> rescaled_by_other_factor(const Evidence& evidence) {
    if (!can_be_read(evidence)) return {};
    const Variable before = before_of(evidence.acts);
    std::vector<Candidate> candidates = {
        {{{"factor", "exp(m - m_before), infinite before the first key"}},
         rewritten({{var::factor, 1 / var::factor}, {before, before * (var::factor / var::factor)}}),
         1}};
    for (Candidate& sum : combinations(
             evidence,
             {"factor", var::factor, {var::m_before - var::m, var::m_before, var::m, 1}, {1, 0, 0, 0}, true}))
        candidates.push_back(std::move(sum));
    add_functions(evidence, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_recurrence_causes() {
    const std::vector<Stage> sums = {Stage::l, Stage::acc};
    return {
        {"rescaled_by_other_factor", "recurrence", sums,
         "the running state is rescaled by another factor than exp(m_before - m)",
         "the factor of the running state", rescaled_by_other_factor, "--input ramped"},
        {"state_of_other_terms", "recurrence", sums,
         "the running state is added up from other terms than before * factor + sum",
         "the line that updates the running state; factor is exp(m_before - m)", state_of_other_terms,
         "--input ramped"},
    };
}

}  // namespace tilescope
