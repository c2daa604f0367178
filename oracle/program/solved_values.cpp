#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/program/curve_words.h"
#include "oracle/program/functions.h"
#include "oracle/program/solved.h"
#include "oracle/solve/curve.h"

namespace tilescope {

namespace {

constexpr std::int64_t most_stepped = 400;

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
    for (const Curve& curve : curves_through(points, factors_of_bases(), "x")) offer(curve, "number");
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
        for (const Curve& curve : curves_through(points, factors_of_bases(), "x")) {
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

}  // namespace tilescope
