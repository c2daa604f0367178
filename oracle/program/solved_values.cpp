#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "oracle/program/curve_words.h"
#include "oracle/program/functions.h"
#include "oracle/program/solved.h"
#include "oracle/solve/curve.h"
#include "oracle/solve/fitted_index.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_stepped = 400;

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

std::optional<Eigen::VectorXd> weights_of_terms(const AlignedTerms& aligned) {
    const auto rows = Eigen::Index(aligned.samples.size());
    const auto terms = std::ssize(aligned.samples.front()->terms);
    const auto numbers = Eigen::Index((terms + aligned.width - 1) / aligned.width);
    Equations equations{Eigen::MatrixXd::Zero(rows, numbers), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const SumSample& sample = *aligned.samples[std::size_t(i)];
        for (std::int64_t k = 0; k < terms; ++k)
            equations.terms(i, k / aligned.width) += sample.terms[std::size_t(k)];
        equations.sums(i) = sample.needed;
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

/// The simplest number that all that is wrong may be, as float32 has it; `beside`: that it may be more than what was right. nullopt: there
/// is none.
std::optional<KnownNumber> one_number(const NodeSamples& of, bool beside = false) {
    double low = -HUGE_VAL;
    double high = HUGE_VAL;
    for (const NodeSample& sample : of.samples) {
        if (!sample.is_wrong) continue;
        const double middle = beside ? sample.needed - sample.right : sample.needed;
        low = std::max(low, middle - sample.error);
        high = std::min(high, middle + sample.error);
    }
    if (!(low <= high) || !std::isfinite(low) || !std::isfinite(high)) return std::nullopt;
    const double middle = (low + high) / 2;
    const KnownNumber number =
        simplest_number(middle, std::max((high - low) / 2, std::ldexp(std::abs(middle), -24)), {});
    const auto is_in = [&](double value) { return value >= low && value <= high; };
    if (is_in(number.value) || is_in(double(float(number.value)))) return number;
    return KnownNumber{{}, middle, false};
}

/// One number for all that is wrong, wherever that is, or wherever what is right is less than it, or more. A state may have begun with it.
void offer_constant(RewriteOffers& offers, const NodeSamples& of) {
    const std::optional<KnownNumber> number = one_number(of);
    if (!number) return;
    const double constant = double(float(number->value));
    const double bits =
        constant == 0 ? bits_of_zero : bits_of_real + (number->is_round ? 0 : bits_of_real_that_is_not_round);
    const int node = offers.build().real(number->value);
    std::vector<double> values(of.samples.size(), constant);
    offers.offer(of, node, values, bits, "number");
    for (const bool is_least : {true, false}) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const double right = of.samples[i].right;
            values[i] = is_least ? std::max(right, constant) : std::min(right, constant);
        }
        const ProgramOp op = is_least ? ProgramOp::larger : ProgramOp::smaller;
        offers.offer_everywhere(of, offers.build().of_two(op, of.node, node), values, bits, "number");
    }
    const ProgramNode& read = offers.program().node(of.node);
    if (read.op == ProgramOp::read && read.what == of.stage && read.state == ProgramState::before)
        offers.add_start(of.stage, node, bits);
}

/// Of the node's samples, x and what it must have been.
std::vector<CurvePoint> points_of(const NodeSamples& of, const std::vector<double>& x) {
    std::vector<CurvePoint> points;
    for (std::size_t i = 0; i < x.size(); ++i) {
        const NodeSample& sample = of.samples[i];
        if (std::isfinite(x[i]) && std::isfinite(sample.needed))
            points.push_back({x[i], sample.error, sample.needed, sample.is_wrong});
    }
    return points;
}

/// Steps that a few hundred numbers do not show more do not show either.
std::vector<CurvePoint> some_of(const std::vector<CurvePoint>& points) {
    SpreadChoice every(std::ssize(points), most_stepped);
    std::vector<CurvePoint> some;
    for (const CurvePoint& point : points) {
        if (every.takes()) some.push_back(point);
    }
    return some;
}

/// Functions of what a part of the formula, or of the node, is: of the node's samples.
void offer_curves(RewriteOffers& offers, const NodeSamples& of, int x, const std::vector<double>& x_of,
                  double bits) {
    const std::vector<CurvePoint> points = points_of(of, x_of);
    if (points.empty()) return;
    double least = HUGE_VAL;
    double most = -HUGE_VAL;
    // Hidden scores are infinite.
    for (std::size_t i = 0; i < x_of.size(); ++i) {
        if (std::isnan(x_of[i]) || std::isnan(of.samples[i].needed)) continue;
        least = std::min(least, x_of[i]);
        most = std::max(most, x_of[i]);
    }
    std::vector<double> values(x_of.size());
    const auto offer = [&](const Curve& curve, const char* slot) {
        const std::optional<int> node = curve_node(offers.build(), x, curve, least, most);
        if (!node) return;
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = curve.of(x_of[i]);
        offers.offer(of, *node, values, bits + bits_of_curve(curve), slot);
    };
    for (const Curve& curve : curves_through(points, {}, "x")) offer(curve, "number");
    if (x != of.node) return;
    for (const Curve& curve : roundings_through(some_of(points), grids_of_types())) offer(curve, "type");
}

/// A number that is added everywhere, which a few places show.
void offer_summand(RewriteOffers& offers, const NodeSamples& of) {
    const std::optional<KnownNumber> number = one_number(of, true);
    if (!number || number->value == 0) return;
    std::vector<double> values;
    for (const NodeSample& sample : of.samples) values.push_back(sample.right + number->value);
    ProgramBuilder& build = offers.build();
    const int sum = build.of_two(number->value < 0 ? ProgramOp::minus : ProgramOp::plus, of.node,
                                 build.real(std::abs(number->value)));
    offers.offer_everywhere(
        of, sum, values,
        bits_of_left_out + bits_of_real + (number->is_round ? 0 : bits_of_real_that_is_not_round), "term");
}

}  // namespace

void offer_functions(RewriteOffers& offers, const NodeSamples& of) {
    offer_constant(offers, of);
    offer_summand(offers, of);
    std::vector<double> x;
    for (const NodeSample& sample : of.samples) x.push_back(sample.right);
    offer_curves(offers, of, of.node, x, 0);
}

namespace {

/// Of a choice what stands on the side that was taken at all wrong places: a line of the other side, as of scores that a mask hides.
void offer_taken_side(RewriteOffers& offers, const NodeSamples& of) {
    const ProgramNode node = offers.program().node(of.node);
    if (node.op != ProgramOp::chosen) return;
    for (const std::size_t taken : {std::size_t{0}, std::size_t{2}}) {
        const std::size_t other = 2 - taken;
        if (!offers.samples().has_operand(of.node, other)) continue;
        std::vector<CurvePoint> points;
        bool is_taken = true;
        for (const NodeSample& sample : of.samples) {
            if (!sample.is_wrong) continue;
            const Uncertain x = sample.operands[other];
            is_taken = is_taken && sample.right == sample.operands[taken].value;
            points.push_back({x.value, x.error + sample.error, sample.needed, true});
        }
        if (!is_taken) continue;
        for (const Curve& curve : curves_through(points, {}, "x")) {
            const bool is_plain = curve.rule.is_line && !curve.rule.mirrored;
            if (!is_plain || curve.domain.kind != CurveDomain::Kind::all) continue;
            ProgramNode choice = node;
            choice.of[taken] = *curve_node(offers.build(), node.of[other], curve, 0, 0);
            offers.add(of.stage, of.node, offers.build().add(std::move(choice)),
                       bits_of_left_out + bits_of_curve(curve), "guard");
        }
    }
}

}  // namespace

void offer_operands(RewriteOffers& offers, const NodeSamples& of) {
    offer_taken_side(offers, of);
    std::vector<double> values(of.samples.size());
    for (std::size_t k = 0; k < NodeSample().operands.size(); ++k) {
        if (!offers.samples().has_operand(of.node, k)) continue;
        const int operand = offers.program().node(of.node).of[k];
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = of.samples[i].operands[k].value;
        offers.offer(of, operand, values, bits_of_left_out, "term");
        offer_curves(offers, of, operand, values, bits_of_left_out);
    }
}

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
        const std::optional<Eigen::VectorXd> weights = weights_of_terms(aligned);
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

}  // namespace tilescope
