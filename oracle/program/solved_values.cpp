#include <algorithm>
#include <cmath>
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

/// The one number that terms are multiplied with where that is not 1; nullopt: there are several, or none.
std::optional<double> only_weight(const Eigen::VectorXd& weights) {
    std::optional<double> only;
    for (const double weight : weights) {
        if (weight == 1) continue;
        if (only && *only != weight) return std::nullopt;
        only = weight;
    }
    return only;
}

std::optional<Eigen::VectorXd> weights_of_terms(const SumSamples& of) {
    const auto rows = Eigen::Index(of.sums.size());
    const auto terms = Eigen::Index(of.terms.front().size());
    Equations equations{Eigen::MatrixXd(rows, terms), Eigen::VectorXd(rows), Eigen::VectorXd(rows)};
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index k = 0; k < terms; ++k)
            equations.terms(i, k) = of.terms[std::size_t(i)][std::size_t(k)];
        equations.sums(i) = of.sums[std::size_t(i)];
        equations.errors(i) = of.errors[std::size_t(i)];
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
    if (std::ssize(of.sums) < fewest_places || of.along.size() != 1) return;
    const std::optional<Eigen::VectorXd> weights = weights_of_terms(of);
    const std::optional<double> weight = weights ? only_weight(*weights) : std::nullopt;
    if (!weight) return;
    const int axis = of.along.front();
    std::vector<LabelledIndices> places;
    for (Eigen::Index k = 0; k < weights->size(); ++k) {
        LabelledIndices& place = places.emplace_back(LabelledIndices{{}, (*weights)(k) != 1});
        place.at[std::size_t(axis)] = std::int32_t(of.ranges[std::size_t(axis)].first + k);
    }
    const Program& program = offers.program();
    std::vector<PlaceNumber> numbers{{axis, PlaceNumber::Kind::index}};
    if (program.axes[std::size_t(axis)].block >= 0) numbers.push_back({axis, PlaceNumber::Kind::within});
    ProgramBuilder& build = offers.build();
    const std::optional<FoundCondition> condition =
        find_condition(offers.samples().call(), build, places, numbers);
    if (!condition) return;
    ProgramNode sum = program.node(of.node);
    const int term = sum.of[0];
    const int other =
        *weight == 0 ? build.real(0) : build.of_two(ProgramOp::times, term, build.real(*weight));
    sum.of[0] = build.chosen(other, condition->node, term);
    offers.add(of.stage, of.node, build.add(std::move(sum)),
               condition->bits + (*weight == 0 ? 2 : bits_of_real), "range");
}

}  // namespace tilescope
