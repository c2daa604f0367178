// How often each term of a sum counts, and of which terms a factor was cast: least squares over many sums.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "oracle/program/curve_words.h"
#include "oracle/program/solved.h"
#include "oracle/solve/curve.h"
#include "oracle/solve/fitted_index.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

/// Both numbers that terms are multiplied with, the rarer one first; nullopt: there are more, or it is 1 for all.
std::optional<std::array<double, 2>> two_weights(const Eigen::VectorXd& weights) {
    std::map<double, std::int64_t> counts;
    for (const double weight : weights) ++counts[weight];
    if (counts.size() == 1) return std::array{counts.begin()->first, 1.0};
    if (counts.size() != 2) return std::nullopt;
    const auto& [one, count] = *counts.begin();
    const auto& [other, other_count] = *counts.rbegin();
    return count <= other_count ? std::array{one, other} : std::array{other, one};
}

/// Terms of the sums by a number of each: those of one number have one weight. One after the other.
struct AlignedTerms {
    PlaceNumber::Kind by;
    std::int64_t first;  ///< index of the first one
    std::int64_t width;  ///< terms of one number
    std::vector<const SumSample*> samples;
};

std::vector<AlignedTerms> alignments(const SumSamples& of, const ProgramCall& call) {
    // A block at the end of the axis has fewer.
    const SumSample& front = *std::ranges::max_element(
        of.samples, {}, [](const SumSample& sample) { return sample.terms.size(); });
    AlignedTerms by_index{PlaceNumber::Kind::index, front.first, 1, {}};
    AlignedTerms within{PlaceNumber::Kind::within, 0, 1, {}};
    for (const SumSample& sample : of.samples) {
        if (sample.terms.size() != front.terms.size()) continue;
        if (sample.first == front.first) by_index.samples.push_back(&sample);
        within.samples.push_back(&sample);
    }
    const std::int64_t block = call.blocks[std::size_t(of.axis)];
    std::vector<AlignedTerms> all;
    if (block < std::ssize(front.terms))
        all.push_back({PlaceNumber::Kind::block, front.first, block, by_index.samples});
    all.push_back(by_index);
    if (within.samples.size() > by_index.samples.size()) all.push_back(std::move(within));
    return all;
}

/// `terms_of` a sample, which add up to `sum_of` it.
template <class TermsOf, class SumOf>
std::optional<Eigen::VectorXd> weights_of_terms(const AlignedTerms& aligned, const TermsOf& terms_of,
                                                const SumOf& sum_of) {
    const auto rows = Eigen::Index(aligned.samples.size());
    const auto terms = std::ssize(aligned.samples.front()->terms);
    const auto numbers = Eigen::Index((terms + aligned.width - 1) / aligned.width);
    Equations equations{Eigen::MatrixXd::Zero(rows, numbers), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const SumSample& sample = *aligned.samples[std::size_t(i)];
        const std::vector<double> each = terms_of(sample);
        for (std::int64_t k = 0; k < terms; ++k)
            equations.terms(i, k / aligned.width) += each[std::size_t(k)];
        equations.sums(i) = sum_of(sample);
        equations.errors(i) = sample.error;
    }
    return find_weights(equations);
}

/// Whole numbers that are expressions of the index; `where_not_one`: those that tell the numbers that are not 1.
std::vector<Expr> weights_by_index(const Eigen::VectorXd& weights, const AlignedTerms& aligned,
                                   bool where_not_one) {
    constexpr std::size_t most = 8;
    std::vector<std::pair<std::int64_t, std::int64_t>> table;
    for (Eigen::Index k = 0; k < weights.size(); ++k) {
        if (where_not_one && weights(k) == 1) continue;
        if (weights(k) != std::floor(weights(k)) || std::abs(weights(k)) > 64) return {};
        table.emplace_back(aligned.first / aligned.width + k, std::int64_t(weights(k)));
    }
    if (where_not_one) return fitted_indices(table, Coordinate::row, most);
    const std::optional<Expr> whole = fitted_index(table, Coordinate::row);
    return whole ? std::vector{*whole} : std::vector<Expr>{};
}

}  // namespace

namespace {

/// Weights that an index makes: of all terms, or of some, where the others count once.
void offer_weights_by_index(RewriteOffers& offers, const SumSamples& of, const Eigen::VectorXd& weights,
                            const AlignedTerms& aligned) {
    const PlaceNumber number{of.axis, aligned.by};
    ProgramBuilder& build = offers.build();
    ProgramNode sum = offers.program().node(of.node);
    const int term = sum.of[0];
    const auto weighted_by = [&](const Expr& expr) {
        const int weight = build.index(expr, [&](Coordinate) { return number.node(build); });
        return weight < 0 ? -1 : build.of_two(ProgramOp::times, term, weight);
    };
    const auto offer = [&](int weighted, double bits) {
        sum.of[0] = weighted;
        offers.add(of.stage, of.node, build.add(sum), bits + 2, "range");
    };
    for (const Expr& expr : weights_by_index(weights, aligned, false)) {
        const int weighted = weighted_by(expr);
        if (weighted >= 0) return offer(weighted, bits_of_expression(expr));
    }
    for (const Expr& expr : weights_by_index(weights, aligned, true)) {
        // Where the expression makes 1 as well, the term may be either.
        std::vector<LabelledIndices> places;
        for (Eigen::Index k = 0; k < weights.size(); ++k) {
            const std::int64_t at = aligned.first / aligned.width + k;
            if (weights(k) == 1 && expr.at(Coordinate::row, at) == 1) continue;
            LabelledIndices& place = places.emplace_back(LabelledIndices{{}, weights(k) != 1});
            place.at[std::size_t(number.axis)] = std::int32_t(aligned.first + k * aligned.width);
        }
        const int weighted = weighted_by(expr);
        const auto condition = find_condition(offers.samples().call(), build, places, {number});
        if (weighted >= 0 && condition)
            offer(build.chosen(weighted, condition->node, term), bits_of_expression(expr) + condition->bits);
    }
}

}  // namespace

void offer_weights(RewriteOffers& offers, const SumSamples& of) {
    if (std::ssize(of.samples) < fewest_places) return;
    for (const AlignedTerms& aligned : alignments(of, offers.samples().call())) {
        const std::optional<Eigen::VectorXd> weights = weights_of_terms(
            aligned, [](const SumSample& sample) { return sample.terms; },
            [](const SumSample& sample) { return sample.needed; });
        if (!weights) continue;
        const PlaceNumber number{of.axis, aligned.by};
        ProgramBuilder& build = offers.build();
        ProgramNode sum = offers.program().node(of.node);
        const int term = sum.of[0];
        const std::optional<std::array<double, 2>> two = two_weights(*weights);
        if (!two) {
            offer_weights_by_index(offers, of, *weights, aligned);
            continue;
        }
        if (*two == std::array{1.0, 1.0}) continue;
        double bits = 0;
        const auto weighted = [&](double weight) {
            if (weight == 1) return term;
            bits += weight == 0 ? 2 : bits_of_real;
            return weight == 0 ? build.real(0) : build.of_two(ProgramOp::times, term, build.real(weight));
        };
        sum.of[0] = weighted((*two)[0]);
        std::vector<LabelledIndices> places;
        for (Eigen::Index k = 0; k < weights->size(); ++k) {
            LabelledIndices& place = places.emplace_back(LabelledIndices{{}, (*weights)(k) == (*two)[0]});
            place.at[std::size_t(number.axis)] = std::int32_t(aligned.first + k * aligned.width);
        }
        if (!std::ranges::all_of(places, &LabelledIndices::is_inside)) {
            const auto condition = find_condition(offers.samples().call(), build, places, {number});
            if (!condition) continue;
            sum.of[0] = build.chosen(sum.of[0], condition->node, weighted((*two)[1]));
            bits += condition->bits;
        }
        offers.add(of.stage, of.node, build.add(std::move(sum)), bits, "range");
    }
}

namespace {

/// What a cast changes of each term, if it is one of one of its factors.
class CastOfFactor {
 public:
    CastOfFactor(const Curve& cast, std::size_t factor, bool is_uncast)
        : cast_(cast), factor_(factor), is_uncast_(is_uncast) {}

    std::vector<double> changes(const SumSample& sample) const {
        std::vector<double> changes = (is_uncast_ ? sample.uncast : sample.factors)[factor_];
        for (std::size_t k = 0; k < changes.size(); ++k) {
            changes[k] = cast_.of(changes[k]) - sample.factors[factor_][k];
            for (std::size_t i = 0; i < sample.factors.size(); ++i)
                if (i != factor_) changes[k] *= sample.factors[i][k];
        }
        return changes;
    }

    bool is_known(const SumSample& sample) const {
        return !sample.factors.empty() && sample.factors[factor_].size() == sample.terms.size() &&
               (!is_uncast_ || sample.uncast[factor_].size() == sample.terms.size());
    }

 private:
    const Curve& cast_;
    std::size_t factor_;
    bool is_uncast_;
};

/// Where the cast is one of the terms: least squares tell how much of each change is there, which is all of it or nothing.
void offer_cast_of_some(RewriteOffers& offers, const SumSamples& of, std::size_t factor, bool is_uncast,
                        const Curve& cast, const std::vector<AlignedTerms>& all) {
    const CastOfFactor changed(cast, factor, is_uncast);
    const int node = of.factors[factor];
    for (AlignedTerms aligned : all) {
        std::erase_if(aligned.samples, [&](const SumSample* sample) { return !changed.is_known(*sample); });
        if (std::ssize(aligned.samples) < fewest_places || aligned.width > 1) continue;
        const std::optional<Eigen::VectorXd> weights = weights_of_terms(
            aligned, [&](const SumSample& sample) { return changed.changes(sample); },
            [](const SumSample& sample) {
                return sample.needed - std::accumulate(sample.terms.begin(), sample.terms.end(), 0.0);
            });
        if (!weights) continue;
        std::vector<LabelledIndices> places;
        for (Eigen::Index k = 0; k < weights->size(); ++k) {
            LabelledIndices& place = places.emplace_back(LabelledIndices{{}, (*weights)(k) == 1});
            place.at[std::size_t(of.axis)] = std::int32_t(aligned.first + k);
            if ((*weights)(k) != 0 && (*weights)(k) != 1) return;
        }
        ProgramBuilder& build = offers.build();
        const auto condition =
            find_condition(offers.samples().call(), build, places, {{of.axis, aligned.by}});
        const int x = is_uncast ? offers.program().node(node).of[0] : node;
        const auto instead = curve_node(build, x, cast, -HUGE_VAL, HUGE_VAL);
        if (condition && instead)
            offers.add(of.stage, node, build.chosen(*instead, condition->node, node),
                       bits_of_left_out + bits_of_curve(cast) + condition->bits, "type");
    }
}

}  // namespace

void offer_casts_of_some(RewriteOffers& offers, const SumSamples& of) {
    if (std::ssize(of.samples) < fewest_places) return;
    const std::vector<AlignedTerms> all = alignments(of, offers.samples().call());
    for (std::size_t k = 0; k < of.factors.size(); ++k) {
        const ProgramNode& factor = offers.program().node(of.factors[k]);
        for (const bool is_uncast : {false, true}) {
            if (factor.is_whole || (is_uncast && factor.op != ProgramOp::cast)) continue;
            for (const Curve& cast : casts()) offer_cast_of_some(offers, of, k, is_uncast, cast, all);
        }
    }
}

}  // namespace tilescope
