#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <optional>

#include "oracle/program/solved.h"
#include "oracle/solve/curve.h"
#include "oracle/solve/weights.h"

namespace tilescope {

namespace {

constexpr double bits_of_real = 8;
constexpr double bits_of_real_that_is_not_round = 16;

/// slope x + offset
int line_of(ProgramBuilder& build, int x, const CurveRule& rule) {
    if (rule.slope == 0) return build.real(rule.offset);
    const int product = rule.slope == 1 ? x : build.of_two(ProgramOp::times, x, build.real(rule.slope));
    return rule.offset == 0 ? product : build.of_two(ProgramOp::plus, product, build.real(rule.offset));
}

/// Whether x is in the domain; nullopt: the language has no words for it, -1: it always is.
std::optional<int> domain_of(ProgramBuilder& build, int x, const CurveDomain& domain) {
    const auto bound = [&](ProgramOp op, int of) { return build.of_two(op, of, build.real(domain.at)); };
    const auto magnitude = [&] {
        return build.add({.op = ProgramOp::call, .of = {x, -1, -1}, .what = int(ProgramFunction::abs)});
    };
    switch (domain.kind) {
        case CurveDomain::Kind::all:
            return -1;
        case CurveDomain::Kind::above:
            return bound(ProgramOp::more, x);
        case CurveDomain::Kind::below:
            return bound(ProgramOp::less, x);
        case CurveDomain::Kind::within:
            return bound(ProgramOp::less, magnitude());
        case CurveDomain::Kind::beyond:
            return bound(ProgramOp::more, magnitude());
        case CurveDomain::Kind::bit_set:
            break;
    }
    return std::nullopt;
}

/// The index along an axis that a sum goes along, and within its block, where that is no period that is tried anyway.
std::vector<PlaceNumber> numbers_along(const ProgramCall& call, int axis) {
    std::vector<PlaceNumber> numbers{{axis, PlaceNumber::Kind::index}};
    const bool is_power = std::has_single_bit(std::uint64_t(call.blocks[std::size_t(axis)]));
    if (call.program.axes[std::size_t(axis)].block >= 0 && !is_power)
        numbers.push_back({axis, PlaceNumber::Kind::within});
    return numbers;
}

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

/// Of the sums that take the most terms from one place.
std::optional<Eigen::VectorXd> weights_of_terms(const std::vector<SumSample>& samples) {
    const auto terms = Eigen::Index(samples.front().terms.size());
    std::vector<const SumSample*> same;
    for (const SumSample& sample : samples) {
        if (sample.first == samples.front().first && Eigen::Index(sample.terms.size()) == terms)
            same.push_back(&sample);
    }
    const auto rows = Eigen::Index(same.size());
    Equations equations{Eigen::MatrixXd(rows, terms), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        const SumSample& sample = *same[std::size_t(i)];
        for (Eigen::Index k = 0; k < terms; ++k) equations.terms(i, k) = sample.terms[std::size_t(k)];
        equations.sums(i) = sample.needed;
        equations.errors(i) = sample.error;
    }
    return find_weights(equations);
}

}  // namespace

void offer_functions(RewriteOffers& offers, const NodeSamples& of) {
    std::vector<CurvePoint> points;
    for (const NodeSample& sample : of.samples) {
        if (std::isfinite(sample.right) && std::isfinite(sample.needed))
            points.push_back({sample.right, sample.error, sample.needed, sample.is_wrong});
    }
    std::vector<double> values(of.samples.size());
    for (const Curve& curve : curves_through(points, {}, "x")) {
        if (!curve.rule.is_line || curve.rule.grid || curve.rule.mirrored) continue;
        const std::optional<int> domain = domain_of(offers.build(), of.node, curve.domain);
        if (!domain) continue;
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = curve.of(of.samples[i].right);
        int line = line_of(offers.build(), of.node, curve.rule);
        if (*domain >= 0) line = offers.build().chosen(line, *domain, of.node);
        offers.offer(
            of, line, values,
            bits_of_real * (1 + curve.parameters) + (curve.is_round ? 0 : bits_of_real_that_is_not_round),
            "number");
    }
}

void offer_weights(RewriteOffers& offers, const SumSamples& of) {
    if (std::ssize(of.samples) < fewest_places) return;
    const std::optional<Eigen::VectorXd> weights = weights_of_terms(of.samples);
    const std::optional<std::array<double, 2>> two = weights ? two_weights(*weights) : std::nullopt;
    if (!two || *two == std::array{1.0, 1.0}) return;
    const int axis = of.along.front();
    std::vector<LabelledIndices> places;
    for (Eigen::Index k = 0; k < weights->size(); ++k) {
        LabelledIndices& place = places.emplace_back(LabelledIndices{{}, (*weights)(k) == (*two)[0]});
        place.at[std::size_t(axis)] = std::int32_t(of.samples.front().first + k);
    }
    ProgramBuilder& build = offers.build();
    ProgramNode sum = offers.program().node(of.node);
    const int term = sum.of[0];
    double bits = 0;
    const auto weighted = [&](double weight) {
        if (weight == 1) return term;
        bits += weight == 0 ? 2 : bits_of_real;
        return weight == 0 ? build.real(0) : build.of_two(ProgramOp::times, term, build.real(weight));
    };
    sum.of[0] = weighted((*two)[0]);
    const bool is_everywhere = std::ranges::all_of(places, &LabelledIndices::is_inside);
    if (!is_everywhere) {
        const std::optional<FoundCondition> condition = find_condition(
            offers.samples().call(), build, places, numbers_along(offers.samples().call(), axis));
        if (!condition) return;
        sum.of[0] = build.chosen(sum.of[0], condition->node, weighted((*two)[1]));
        bits += condition->bits;
    }
    offers.add(of.stage, of.node, build.add(std::move(sum)), bits, "range");
}

/// Those that are beyond it were left out, and the one that it is was not.
void offer_extremes(RewriteOffers& offers, const SumSamples& of) {
    if (std::ssize(of.samples) < fewest_places) return;
    const bool is_most = offers.program().node(of.node).op == ProgramOp::most;
    const int axis = of.along.front();
    std::vector<LabelledIndices> left_out;
    for (const SumSample& sample : of.samples) {
        bool is_one_of_them = false;
        for (std::size_t k = 0; k < sample.terms.size(); ++k) {
            const double off = (is_most ? 1 : -1) * (sample.terms[k] - sample.needed);
            const bool is_beyond = off > sample.error;
            if (!is_beyond && std::abs(off) > sample.error) continue;
            LabelledIndices place{sample.at, is_beyond};
            place.at[std::size_t(axis)] = std::int32_t(sample.first + std::int64_t(k));
            is_one_of_them = is_one_of_them || !is_beyond;
            left_out.push_back(place);
        }
        if (!is_one_of_them) return;
    }
    ProgramBuilder& build = offers.build();
    ProgramNode extreme = offers.program().node(of.node);
    const int term = extreme.of[0];
    const int none = build.real(is_most ? -HUGE_VAL : HUGE_VAL);
    std::vector<PlaceNumber> numbers = numbers_along(offers.samples().call(), axis);
    for (const PlaceNumber& number : place_numbers(offers.program(), of.axes)) numbers.push_back(number);
    for (const bool is_kept : {true, false}) {
        std::vector<LabelledIndices> places = left_out;
        for (LabelledIndices& place : places) place.is_inside = place.is_inside != is_kept;
        const auto condition = find_condition(offers.samples().call(), build, places, numbers);
        if (!condition) continue;
        extreme.of[0] =
            is_kept ? build.chosen(term, condition->node, none) : build.chosen(none, condition->node, term);
        offers.add(of.stage, of.node, build.add(extreme), condition->bits + 2, "range");
    }
}

}  // namespace tilescope
