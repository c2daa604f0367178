#include "oracle/program/curve_words.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "oracle/program/functions.h"
#include "oracle/program/solved.h"

namespace tilescope {

namespace {

int called(ProgramBuilder& build, ProgramFunction function, int of) {
    return build.add({.op = ProgramOp::call, .of = {of, -1, -1}, .what = int(function)});
}

/// slope x + offset
int line_of(ProgramBuilder& build, int x, double slope, double offset) {
    if (slope == 0) return build.real(offset);
    int product = slope == 1 ? x : build.of_two(ProgramOp::times, x, build.real(slope));
    if (slope == -1) product = build.add({.op = ProgramOp::negative, .of = {x, -1, -1}});
    if (offset == 0) return product;
    return build.of_two(offset < 0 ? ProgramOp::minus : ProgramOp::plus, product,
                        build.real(std::abs(offset)));
}

/// Of 0 enough bits that are set make whatever number.
bool sets_any_number(const CurveRule& rule) {
    constexpr int most = 2;
    return std::popcount(rule.set) > most;
}

int other_bits(ProgramBuilder& build, int x, const CurveRule& rule) {
    // What is set is cut off and inverted.
    const std::uint32_t keep = rule.keep & ~rule.set;
    const std::uint32_t flip = rule.set ^ rule.flip;
    if (keep != 0xffffffff) x = build.of_two(ProgramOp::masked, x, build.whole(keep));
    return flip == 0 ? x : build.of_two(ProgramOp::exclusive, x, build.whole(flip));
}

/// Whether x is in the domain; -1: it always is.
int domain_of(ProgramBuilder& build, int x, const CurveDomain& domain) {
    const auto bound = [&](ProgramOp op, int of) { return build.of_two(op, of, build.real(domain.at)); };
    switch (domain.kind) {
        case CurveDomain::Kind::all:
            break;
        case CurveDomain::Kind::above:
            return bound(ProgramOp::more, x);
        case CurveDomain::Kind::below:
            return bound(ProgramOp::less, x);
        case CurveDomain::Kind::within:
            return bound(ProgramOp::less, called(build, ProgramFunction::abs, x));
        case CurveDomain::Kind::beyond:
            return bound(ProgramOp::more, called(build, ProgramFunction::abs, x));
        case CurveDomain::Kind::bit_set: {
            const int bit = build.of_two(ProgramOp::masked, x, build.whole(std::int64_t(1) << domain.bit));
            return build.of_two(ProgramOp::unequal, bit, build.real(0));
        }
    }
    return -1;
}

/// Rounded to a type, or to multiples of a step, between two of them where x is beyond these.
std::optional<int> rounded(ProgramBuilder& build, int x, const NumberGrid& grid, double least, double most) {
    const bool is_nearest = grid.direction == NumberGrid::Direction::to_nearest;
    if (grid.step <= 0) {
        const std::optional<Dtype> dtype = dtype_from_name(grid.name);
        if (!dtype || !is_nearest) return std::nullopt;
        return build.cast(*dtype, x);
    }
    const auto function = is_nearest ? ProgramFunction::round : ProgramFunction::trunc;
    const auto bounded = [&](int steps) {
        if (most > (grid.most + 0.5) * grid.step)
            steps = build.of_two(ProgramOp::smaller, steps, build.real(grid.most));
        if (least < (grid.least - 0.5) * grid.step)
            steps = build.of_two(ProgramOp::larger, steps, build.real(grid.least));
        return steps;
    };
    if (grid.step == 1) return bounded(called(build, function, x));
    const double parts = std::round(1 / grid.step);
    const bool divides = parts >= 1 && std::abs(parts * grid.step - 1) < 1e-12;
    const int by = build.real(divides ? parts : grid.step);
    int steps = build.of_two(divides ? ProgramOp::times : ProgramOp::quotient, x, by);
    steps = bounded(called(build, function, steps));
    return build.of_two(divides ? ProgramOp::quotient : ProgramOp::times, steps, by);
}

std::optional<int> rule_node(ProgramBuilder& build, int x, const CurveRule& rule, double least, double most) {
    if (rule.grid) return rounded(build, x, *rule.grid, least, most);
    if (!rule.is_line)
        return sets_any_number(rule) ? std::nullopt : std::optional(other_bits(build, x, rule));
    const int line = line_of(build, x, rule.slope, rule.offset);
    if (!rule.mirrored || rule.offset == 0) return line;
    const int is_positive = build.of_two(ProgramOp::more, x, build.real(0));
    return build.chosen(line, is_positive, line_of(build, x, rule.slope, -rule.offset));
}

}  // namespace

std::optional<int> curve_node(ProgramBuilder& build, int x, const Curve& curve, double least, double most) {
    const CurveRule& rule = curve.rule;
    const CurveDomain& domain = curve.domain;
    const bool is_above = domain.kind == CurveDomain::Kind::above;
    const bool has_end = is_above || domain.kind == CurveDomain::Kind::below;
    if (has_end && rule.is_line && rule.slope == -1 && rule.offset == 0 && domain.at == 0) {
        const int size = called(build, ProgramFunction::abs, x);
        return is_above ? build.add({.op = ProgramOp::negative, .of = {size, -1, -1}}) : size;
    }
    if (has_end && rule.is_line && rule.slope == 0 && rule.offset == domain.at)
        return build.of_two(is_above ? ProgramOp::smaller : ProgramOp::larger, x, build.real(domain.at));
    const std::optional<int> line = rule_node(build, x, rule, least, most);
    const int where = line ? domain_of(build, x, domain) : -1;
    return where < 0 ? line : std::optional(build.chosen(*line, where, x));
}

const std::vector<KnownNumber>& factors_of_bases() {
    static const std::vector<KnownNumber> factors = {{"log2(e)", std::numbers::log2e},
                                                     {"ln(2)", std::numbers::ln2}};
    return factors;
}

double bits_of_curve(const Curve& curve) {
    const bool is_type = curve.rule.grid && curve.rule.grid->step <= 0;
    if (is_type) return bits_of_type;
    const auto is_round = [](double number) {
        return number == 0 || simplest_number(number, 1e-9 * std::abs(number), factors_of_bases()).is_round;
    };
    const CurveRule& rule = curve.rule;
    const bool are_round =
        curve.is_round && is_round(curve.domain.at) && is_round(rule.slope) && is_round(rule.offset);
    return bits_of_real * (1 + curve.parameters) + (are_round ? 0 : bits_of_real_that_is_not_round);
}

std::vector<NumberGrid> grids_of_types() {
    std::vector<NumberGrid> grids;
    for (const DtypeInfo& info : narrow_dtypes()) grids.push_back(grid_of(info));
    NumberGrid whole;
    whole.name = "int32";
    whole.step = 1;
    whole.direction = NumberGrid::Direction::toward_zero;
    whole.least = double(std::numeric_limits<std::int32_t>::min());
    whole.most = double(std::numeric_limits<std::int32_t>::max());
    grids.push_back(std::move(whole));
    return grids;
}

const std::vector<Curve>& casts() {
    static const std::vector<Curve> all = [] {
        std::vector<Curve> curves;
        const auto add = [&](NumberGrid grid) {
            CurveRule rule;
            rule.is_line = false;
            rule.grid = std::move(grid);
            curves.push_back({{}, rule, 1, true, rule.grid->name});
        };
        for (NumberGrid& grid : grids_of_types()) add(std::move(grid));
        for (const int parts : {127, 128}) {
            NumberGrid grid;
            grid.name = "int8";
            grid.step = 1.0 / parts;
            grid.least = -127;
            grid.most = 127;
            add(grid);
        }
        return curves;
    }();
    return all;
}

}  // namespace tilescope
