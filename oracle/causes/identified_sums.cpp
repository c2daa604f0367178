#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "oracle/causes/signature.h"
#include "oracle/causes/sum_ranges.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/solve/fitted_index.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

constexpr std::size_t most_summed = 2048;

Equations equations_of(const std::vector<WrongSum>& wrong) {
    const auto rows = Eigen::Index(wrong.size());
    const auto terms = Eigen::Index(wrong.front().sum.terms.size());
    Equations equations{Eigen::MatrixXd(rows, terms), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const TileSum& sum = wrong[std::size_t(i)].sum;
        equations.terms.row(i) = Eigen::Map<const Eigen::RowVectorXd>(sum.terms.data(), terms);
        equations.sums(i) = sum.got - sum.carried;
        equations.errors(i) = sum.error;
    }
    return equations;
}

/// The period of numbers that repeat; 0: they do not.
std::size_t repeat_of(const std::vector<double>& values) {
    for (std::size_t period = 1; period <= values.size() / 2; ++period) {
        if (std::equal(values.begin() + std::ptrdiff_t(period), values.end(), values.begin())) return period;
    }
    return 0;
}

/// "0-3, 9", and how many ranges these are.
std::pair<std::string, int> ranges_of(const std::vector<bool>& set) {
    if (const auto places = places_of(set)) return {to_string(*places), 1};
    std::string text;
    int ranges = 0;
    for (std::size_t i = 0; i < set.size(); ++i) {
        if (!set[i]) continue;
        std::size_t last = i;
        while (last + 1 < set.size() && set[last + 1]) ++last;
        text += fmt::format("{}{}", ranges++ > 0 ? ", " : "",
                            to_string(Places{0, std::int64_t(i), std::int64_t(last - i + 1)}));
        i = last;
    }
    return {text, ranges};
}

/// "all 2 times", "0-3 0 times, 8-15 2 times", "d % 16 + 1 times".
struct WeightsTold {
    std::string text;
    int free = 0;
};

/// Whole numbers that are computed from the number of their term; nullopt of others.
std::optional<WeightsTold> weights_by_formula(Coordinate of, const std::vector<double>& weights) {
    std::vector<std::pair<std::int64_t, std::int64_t>> table;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] != std::round(weights[i])) return std::nullopt;
        table.emplace_back(std::int64_t(i), std::int64_t(weights[i]));
    }
    const std::optional<Expr> formula = fitted_index(table, of);
    const auto is_of = [&](const auto& entry) { return formula->at(of, entry.first) == entry.second; };
    if (!formula || !std::ranges::all_of(table, is_of)) return std::nullopt;
    return WeightsTold{formula->text() + " times", std::max(1, formula->choices())};
}

WeightsTold told_weights(const Evidence& evidence, TermIndex index, const std::vector<double>& weights) {
    const auto times = [&](double weight) {
        return std::round(4 * weight) == 4 * weight ? digits(weight) : named(evidence, weight, 1e-4).name;
    };
    std::set<double> values(weights.begin(), weights.end());
    if (values.size() == 1) return {"all " + times(weights[0]) + " times", 1};
    values.erase(1);
    const Coordinate of = is_over_head(evidence.acts)        ? Coordinate::d
                          : is_of_all_queries(evidence.acts) ? Coordinate::row
                                                             : Coordinate::col;
    // A few numbers are told by where they are.
    if (values.size() > 2 && index == TermIndex::within_tile)
        if (auto told = weights_by_formula(of, weights)) return *told;
    const std::size_t period = repeat_of(weights);
    if (values.size() > 1 && period > 1 && period <= 16) {
        std::vector<std::string> in_turn;
        for (std::size_t i = 0; i < period; ++i) in_turn.push_back(times(weights[i]));
        return {fmt::format("{} times in turn", fmt::join(in_turn, ", ")), int(period)};
    }
    WeightsTold told;
    for (const double value : values) {
        std::vector<bool> set;
        for (const double weight : weights) set.push_back(weight == value);
        const auto [text, ranges] = ranges_of(set);
        told.text += fmt::format("{}{} {} times", told.free > 0 ? "; " : "", text, times(value));
        told.free += 1 + ranges;
    }
    return told;
}

Candidate weighted(const Evidence& evidence, TermIndex index, const PartSet& set,
                   const std::vector<double>& weights) {
    const WeightsTold told = told_weights(evidence, index, weights);
    const Stage stage = evidence.acts;
    const auto change = [=](SearchedTile& site) { weigh_terms(stage, weights, site, index); };
    Candidate candidate{{{std::string(terms_name(stage, index)), told.text}},
                        only_in(set, stage, {.inputs = change}),
                        told.free + (set.is_all() ? 0 : 1),
                        told.free > 2 ? told.free : 0};
    if (!set.is_all()) candidate.parameters.push_back({"in", set.text(stage)});
    candidate.is_factor =
        std::ranges::any_of(weights, [](double weight) { return weight != std::round(weight); });
    return candidate;
}

void add_weights(const Evidence& evidence, TermIndex index, const PartSet& set,
                 std::vector<Candidate>& candidates) {
    const std::size_t most = set.is_all() ? most_summed : most_summed / 4;
    const std::vector<WrongSum> wrong = wrong_sums(evidence, most, index, set);
    if (wrong.empty()) return;
    const Equations equations = equations_of(wrong);
    const std::optional<Eigen::VectorXd> found = find_weights(equations);
    if (!found) return;
    std::vector<double> weights(found->begin(), found->end());
    const Candidate as_found = weighted(evidence, index, set, weights);
    // Terms that no wrong sum has may be those of lanes that are right.
    for (std::size_t i = 0; i < weights.size(); ++i)
        if (equations.terms.col(Eigen::Index(i)).isZero(0)) weights[i] = 1;
    if (!std::ranges::equal(weights, *found)) candidates.push_back(weighted(evidence, index, set, weights));
    candidates.push_back(as_found);
}

std::vector<Candidate> terms_weighted(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    for (const TermIndex index : term_indices(evidence.acts)) {
        // One term alone is weighed as all of them.
        if (index == TermIndex::within_tile || terms_of_sum(evidence.problem(), evidence.acts, index) > 1)
            add_weights(evidence, index, {}, candidates);
    }
    if (!candidates.empty() || !is_gradient(evidence.acts)) return candidates;
    for (const PartSet& set : part_sets(evidence.problem(), evidence.acts))
        add_weights(evidence, TermIndex::within_tile, set, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_sum_causes() {
    const std::vector<Stage> sums = {Stage::s,  Stage::l,  Stage::acc, Stage::delta,
                                     Stage::dp, Stage::dq, Stage::dk,  Stage::dv};
    return {
        {"terms_weighted", "reduction", sums, "terms of the sum are missing, or count more or less than once",
         "the bounds and the step of the loop that adds them up, and what they are multiplied with",
         terms_weighted},
        {"sum_of_other_range",
         "reduction",
         {Stage::s, Stage::m, Stage::l, Stage::acc, Stage::delta, Stage::dp, Stage::dq, Stage::dk, Stage::dv},
         "the sum, or the maximum, begins or ends at another term",
         "the bounds of the loop over its terms",
         sum_of_other_range},
    };
}

}  // namespace tilescope
