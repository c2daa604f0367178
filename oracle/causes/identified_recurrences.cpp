// What the running state is added up from, and what it is rescaled by, in place of before * exp(m_before - m) + sum.

#include "oracle/causes/combinations.h"
#include "oracle/causes/readable_values.h"

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
    CurveCandidates functions;
    for (const ReadableValue& value : readable_factors(evidence))
        add_curves(evidence, value.points(evidence), value.name, value.change, functions);
    for (Candidate& function : functions.all()) candidates.push_back(std::move(function));
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
