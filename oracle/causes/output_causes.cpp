#include <algorithm>
#include <cmath>
#include <numbers>

#include "oracle/causes/rewrites.h"
#include "oracle/causes/staged_output.h"

namespace tilescope {

namespace {

bool is_split(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    return problem.splits() > 1;
}

/// What is added to l, by the dump: acc / o - l.
std::vector<double> epsilons(const Evidence& evidence) {
    std::vector<double> all = {1e-3, 1e-2, 1e-4, 1e-5, 1e-6, 1e-8, 1};
    std::vector<double> seen_here;
    for (const Observation& seen : evidence.seen) {
        if (!evidence.direct() || !seen.is_bad()) continue;
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                if (seen.is_wrong(i, j) && std::isfinite(seen.got(i, j)) && seen.got(i, j) != 0)
                    seen_here.push_back(whole.acc.value(i, j) / seen.natural(i, j) - whole.l.value(i, 0));
            }
        }
    }
    if (const double middle = median_of(seen_here); std::isfinite(middle) && middle > 0) {
        const double power = std::pow(10, std::round(std::log10(middle)));
        all.push_back(std::abs(power / middle - 1) < 0.1 ? power : middle);
    }
    return all;
}

std::vector<NamedConstant> constants_of_guard(const Evidence& evidence) {
    std::vector<NamedConstant> constants;
    for (const double epsilon : epsilons(evidence)) constants.push_back({digits(epsilon), epsilon});
    return constants;
}

/// What acc is divided by: where splits are combined, in each of them or after them.
Generator divides_by(const Expr& of_row, const Expr& of_split, const Constants& constants) {
    return all_of(
        {rewrites_with("value", constants, {{var::l, of_row}}),
         where_declared(is_split, told({"in", "each split"},
                                       rewrites_with("value", constants, {{var::divisor, of_split}})))});
}

std::vector<Candidate> split_dropped(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_split(evidence)) return {};
    for (std::int64_t which = 0; which < std::min<std::int64_t>(evidence.problem().splits(), 64); ++which) {
        candidates.push_back({{{"which", digits(which)}},
                              {.inputs =
                                   [=](SearchedTile& site) {
                                       if (std::ssize(site.splits) > which + 0 && site.splits.size() > 1)
                                           site.splits.erase(site.splits.begin() + which);
                                   }},
                              1});
    }
    return candidates;
}

/// Every split with a weight of exp(weight(lse)), normalised by itself.
Change weighs_splits(std::function<double(double lse)> weight) {
    return {.inputs = [=](SearchedTile& site) {
        for (RunningState& split : site.splits) {
            for (Eigen::Index i = 0; i < split.m.value.rows(); ++i) {
                const double l = sum_of_row(split.l.value, i);
                const double m = split.m.value(i, 0);
                if (l == 0 || m == -infinity) continue;
                split.acc.value.row(i) /= l;
                split.acc.error.row(i) =
                    split.acc.error.row(i) / l + split.acc.value.row(i).cwiseAbs() * 4 * u_f32;
                split.l.value.row(i).setZero();
                split.l.error.row(i).setZero();
                split.l.value(i, 0) = 1;
                split.m.value(i, 0) = weight(m + std::log(l));
            }
        }
    }};
}

std::vector<Candidate> split_base_mixed(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_split(evidence)) return {};
    for (const double factor : {std::numbers::log2e, std::numbers::ln2}) {
        candidates.push_back({{{"factor", factor > 1 ? "log2e" : "ln2"}},
                              weighs_splits([=](double lse) { return factor * lse; })});
    }
    return candidates;
}

/// One element tells it, which is too few for a formula.
std::vector<NamedConstant> base_of_lse(const Evidence& evidence) {
    const bool is_two = evidence.units().lse_log_base == LogBase::two;
    return {{"2 where e is declared", std::numbers::log2e, is_two ? 1 : 0},
            {"e where 2 is declared", std::numbers::ln2, is_two ? 0 : 1}};
}

}  // namespace

std::vector<Cause> output_causes() {
    const std::vector<Stage> o = {Stage::o};
    const std::vector<Stage> both = {Stage::o, Stage::lse};

    return {
        {"split_dropped", "split / combine", both, "one split is left out when splits are combined",
         "the number of splits that the combining loop takes", split_dropped},
        {"split_base_mixed", "split / combine", both, "splits are weighted with an lse of the other base",
         "exp or exp2 of the differences of lse", split_base_mixed},
        {"epsilon_in_denominator", "guards", o, "a number is added to the row sum before the division",
         "the guard of the division",
         divides_by(var::l + var::constant, var::divisor + var::constant, constants_of_guard),
         "--causal with short rows"},
        {"operand_stored_as_o", "unwritten / stale", o,
         "the output holds the operand in whose shared memory it is staged",
         "the barrier and the fence between the stores to shared memory and the copy from it",
         staged_over_operand},

        {"lse_in_other_base",
         "split / combine",
         {Stage::lse},
         "the log-sum-exp is stored to another base than declared",
         "declare log_base of /outputs/lse where it is meant; otherwise look at log2(e) or ln 2 in the store",
         rewrites_with("base", base_of_lse, {{var::result, var::constant * var::result}}),
         {},
         true},
    };
}

}  // namespace tilescope
