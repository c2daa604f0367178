// Mistakes that change each term of a sum before it is added: the function is read out of the sums. Terms of l are
// probabilities; where o is made, the weighted sums and accumulators of splits and lanes.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "oracle/causes/curves.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/budget.h"
#include "oracle/solve/factor_function.h"

namespace tilescope {

namespace {

constexpr std::size_t most_changed_sums = 96;

Candidate changed_terms(const Curve& curve, const char* terms, Change change) {
    return {{{"each", curve.formula}, {"t", terms}}, std::move(change), curve.parameters};
}

// ---- the row sum

void add_terms_of_row_sum(const Evidence& evidence, std::vector<Candidate>& candidates) {
    const double unit = evidence.units().l_scale;
    std::vector<SumOfProducts> sums;
    for (const WrongSum& wrong : wrong_sums(evidence, most_changed_sums)) {
        SumOfProducts sum{{}, (wrong.sum.got - wrong.sum.carried) * unit, wrong.sum.error * unit};
        for (const double term : wrong.sum.terms)
            if (term != 0) sum.factors.emplace_back(term * unit, 1);
        sums.push_back(std::move(sum));
    }
    for (const Curve& curve : functions_of_factor(sums, "t")) {
        const auto change = [=](SearchedTile& site) {
            pass_through(curve, 1 / unit, site.call->units.l_sums_cast_p ? site.operand_p : site.p);
        };
        candidates.push_back(changed_terms(curve, "p", {.inputs = change}));
    }
}

// ---- splits and lanes together

double merge_weight(const RunningState& split, const RunningState& whole, Eigen::Index row) {
    const double m = split.m.value(row, 0);
    return m == -infinity ? 0 : std::exp(m - whole.m.value(row, 0));
}

/// A number of each split that is added up with its weight, and what it may be off by.
void for_each_weighted(const SearchedTile& site, const RunningState& whole, Estimate RunningState::*part,
                       Eigen::Index row, Eigen::Index col, double unit,
                       const std::function<void(Uncertain)>& see) {
    for (const RunningState& split : site.splits) {
        const double weight = merge_weight(split, whole, row) * unit;
        const double value = weight * (split.*part).value(row, col);
        see({value, weight * (split.*part).error(row, col) + 8 * u_f32 * std::abs(value)});
    }
}

/// The sum of the terms as the curve makes them, in natural units.
Uncertain sum_through(const Curve& curve, const SearchedTile& site, const RunningState& whole,
                      Estimate RunningState::*part, Eigen::Index row, Eigen::Index first, Eigen::Index last,
                      double unit) {
    Uncertain sum;
    for (Eigen::Index col = first; col < last; ++col) {
        for_each_weighted(site, whole, part, row, col, unit, [&](Uncertain term) {
            const Uncertain passed = passed_through(curve, term);
            sum.value += passed.value / unit;
            sum.error += passed.error / unit;
        });
    }
    return sum;
}

/// In place of the splits a single one, which needs no more merging.
void take_whole(SearchedTile& site, RunningState whole) {
    HeadCall& call = site.own_call();
    call.problem.kv_tiles_per_split = 0;
    call.problem.split_starts.clear();
    call.problem.l_lanes = 1;
    site.splits = {std::move(whole)};
}

/// What acc of a row was divided by, in the dump's units of l; nullopt where its elements do not agree.
std::optional<SumOfProducts> divisor_of(const Observation& seen, const RunningState& whole,
                                        Eigen::Index row) {
    const double unit = seen.site.call->units.acc_scale;
    std::vector<std::pair<double, double>> divisors;  // and their relative errors
    std::optional<std::pair<double, double>> best;
    for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
        const double got = seen.natural(row, j);
        const double relative = seen.expected.error(row, j) / std::abs(seen.expected.value(row, j)) +
                                cast_bound(seen.site.call->problem.dtype_o, std::abs(got)) / std::abs(got);
        if (!(relative < 0.1) || !std::isfinite(got)) continue;
        divisors.emplace_back(whole.acc.value(row, j) * unit / got, relative);
        if (!best || relative < best->second) best = divisors.back();
    }
    if (!best) return std::nullopt;
    const auto agrees = [&](const auto& one) {
        return std::abs(one.first / best->first - 1) <= 2 * (one.second + best->second);
    };
    if (double(std::ranges::count_if(divisors, agrees)) < 0.95 * double(divisors.size())) return std::nullopt;
    return SumOfProducts{{}, best->first, best->second * std::abs(best->first)};
}

bool is_zero_row(const Observation& seen, Eigen::Index row) {
    return (seen.got.row(row).array() == 0).all();
}

/// Rows of o whose elements agree on another divisor. A row of zeros has a sum that is nothing, or below it.
struct Divisors {
    std::vector<SumOfProducts> sums;
    bool zeros = false;
    bool are_common = true;
};

Divisors divisors_of(const Evidence& evidence, double unit) {
    Divisors divisors;
    std::int64_t others = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            if (!seen.bad_rows[std::size_t(i)]) continue;
            const bool is_zero = is_zero_row(seen, i);
            divisors.zeros = divisors.zeros || is_zero;
            auto sum = is_zero ? std::nullopt : divisor_of(seen, whole, i);
            others += !is_zero && !sum;
            if (!sum || divisors.sums.size() >= 4 * most_changed_sums) continue;
            for (Eigen::Index lane = 0; lane < seen.site.splits.front().l.value.cols(); ++lane)
                for_each_weighted(seen.site, whole, &RunningState::l, i, lane, unit,
                                  [&](Uncertain term) { sum->factors.emplace_back(term.value, 1); });
            divisors.sums.push_back(std::move(*sum));
        }
    }
    divisors.are_common = others * 20 <= std::ssize(divisors.sums);
    return divisors;
}

Change changes_divisor(const Curve& curve, bool zero_below, double unit) {
    return {.inputs = [=](SearchedTile& site) {
        RunningState whole = whole_state(site);
        for (Eigen::Index i = 0; i < whole.l.value.rows(); ++i) {
            double& l = whole.l.value(i, 0);
            if (!(l > 0)) continue;
            const Uncertain sum =
                sum_through(curve, site, whole, &RunningState::l, i, 0, site.splits[0].l.value.cols(), unit);
            if (sum.value <= 0 && zero_below) {
                whole.acc.value.row(i).setZero();
                whole.acc.error.row(i).setZero();
                continue;
            }
            whole.l.error(i, 0) = whole.l.error(i, 0) * std::abs(sum.value / l) + sum.error;
            l = sum.value;
        }
        take_whole(site, std::move(whole));
    }};
}

void add_terms_of_divisor(const Evidence& evidence, std::vector<Candidate>& candidates) {
    const double unit = evidence.units().l_scale;
    // The sum of a single term is what a formula tells.
    if (evidence.problem().l_lanes == 1 && evidence.seen.front().site.splits.size() < 2) return;
    const Divisors divisors = divisors_of(evidence, unit);
    if (!divisors.are_common) return;
    for (const Curve& curve : functions_of_factor(divisors.sums, "t"))
        candidates.push_back(changed_terms(curve, "l of each lane and split, with its weight",
                                           changes_divisor(curve, divisors.zeros, unit)));
}

Change changes_numerator(const Curve& curve, double unit) {
    return {.inputs = [=](SearchedTile& site) {
        RunningState whole = whole_state(site);
        for (Eigen::Index i = 0; i < whole.acc.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < whole.acc.value.cols(); ++j) {
                const Uncertain sum = sum_through(curve, site, whole, &RunningState::acc, i, j, j + 1, unit);
                whole.acc.value(i, j) = sum.value;
                whole.acc.error(i, j) += sum.error;
            }
        }
        take_whole(site, std::move(whole));
    }};
}

/// o times the sum: what the terms of an element add up to.
struct Numerator {
    SumOfProducts sum;
    bool wrong = false;
};

std::vector<Numerator> numerators_of(const Evidence& evidence, double unit) {
    std::vector<Numerator> numerators;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double l = whole.l.value(i, 0) * unit;
                const double got = seen.natural(i, j) * l;
                if (!std::isfinite(got) || !(l > 0) || !thinned.takes(seen.is_wrong(i, j))) continue;
                const double stored =
                    cast_bound(seen.site.call->problem.dtype_o, std::abs(double(seen.got(i, j))));
                Numerator next{{{}, got, (seen.expected.error(i, j) + stored) * l}, seen.is_wrong(i, j)};
                for_each_weighted(seen.site, whole, &RunningState::acc, i, j, unit,
                                  [&](Uncertain term) { next.sum.factors.emplace_back(term.value, 1); });
                numerators.push_back(std::move(next));
            }
        }
    }
    return numerators;
}

constexpr const char* terms_of_numerator = "acc of each split, with its weight";

/// A single term is seen itself, where it is right as well as where it is wrong.
void add_functions_of_acc(const Evidence& evidence, const std::vector<Numerator>& numerators, double unit,
                          std::vector<Candidate>& candidates) {
    std::vector<CurvePoint> points;
    for (const Numerator& one : numerators)
        points.push_back({one.sum.factors[0].first, one.sum.error, one.sum.got, one.wrong});
    for (const Curve& curve : curves_through(points, known_numbers(evidence), "t")) {
        // What acc is multiplied with, o is; and by the sign of acc is by the sign of o.
        const bool has_bound = curve.rule.offset != 0 || curve.domain.at != 0;
        if (curve.rule.is_line && !has_bound && curve.domain.kind != CurveDomain::Kind::bit_set) continue;
        candidates.push_back(changed_terms(curve, "acc", changes_numerator(curve, unit)));
    }
}

void add_terms_of_numerator(const Evidence& evidence, std::vector<Candidate>& candidates) {
    const double unit = evidence.units().acc_scale;
    const std::vector<Numerator> numerators = numerators_of(evidence, unit);
    if (evidence.seen.front().site.splits.size() < 2)
        return add_functions_of_acc(evidence, numerators, unit, candidates);
    std::vector<SumOfProducts> sums;
    const auto wrong = std::ranges::count_if(numerators, &Numerator::wrong);
    const std::int64_t step = wrong / std::int64_t(2 * most_changed_sums) | 1;
    std::int64_t met = 0;
    for (const Numerator& one : numerators)
        if (one.wrong && met++ % step == 0) sums.push_back(one.sum);
    for (const Curve& curve : functions_of_factor(sums, "t"))
        candidates.push_back(changed_terms(curve, terms_of_numerator, changes_numerator(curve, unit)));
}

std::vector<Candidate> function_of_term(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!can_be_read(evidence)) return candidates;
    if (evidence.acts == Stage::l) {
        add_terms_of_row_sum(evidence, candidates);
    } else if (evidence.problem().sink == AttentionSink::none) {
        add_terms_of_divisor(evidence, candidates);
        add_terms_of_numerator(evidence, candidates);
    }
    return candidates;
}

}  // namespace

std::vector<Cause> identified_changed_term_causes() {
    return {{"function_of_term",
             "values",
             {Stage::l, Stage::o},
             "each term of the sum is passed through a function that it should not be",
             "what is done to a term between its computation and the sum",
             function_of_term}};
}

}  // namespace tilescope
