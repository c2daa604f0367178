#include "oracle/causes/curves.h"

#include <algorithm>
#include <cmath>

#include "oracle/causes/signature.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// Whether it puts 0 or 1 in the place of computed values: of exponentials 1 is that of 0. A bound tells more than the number.
bool is_trivial(const Evidence& evidence, const Curve& curve) {
    const CurveRule& rule = curve.rule;
    if (!rule.is_line || rule.slope != 0 || is_operand(evidence.acts)) return false;
    const bool has_bound =
        curve.domain.kind != CurveDomain::Kind::all && curve.domain.kind != CurveDomain::Kind::bit_set;
    return rule.offset == 1 ? !has_bound || evidence.acts == Stage::p : rule.offset == 0 && !has_bound;
}

}  // namespace

bool can_be_read(const Evidence& evidence) {
    return results_can_be_read(evidence) && evidence.known.empty();
}

bool results_can_be_read(const Evidence& evidence) {
    return evidence.direct() && !evidence.seen.empty();
}

std::vector<KnownNumber> known_numbers(const Evidence& evidence) {
    std::vector<KnownNumber> numbers;
    for (const NamedConstant& constant : known_constants(evidence))
        numbers.push_back({constant.name, constant.value});
    return numbers;
}

double cast_after(const SearchedTile& site, Stage stage, double magnitude) {
    const Problem& problem = site.call->problem;
    switch (stage) {
        case Stage::p:
            return cast_bound(site.call->units.p_cast, magnitude);
        case Stage::acc:
            return cast_bound(problem.dtype_acc, magnitude);
        case Stage::ds:
            return cast_bound(site.call->units.ds_cast, magnitude);
        case Stage::o:
        case Stage::dq:
        case Stage::dk:
        case Stage::dv:
            return cast_bound(stage_dtype(problem, stage), magnitude);
        default:
            return 0;
    }
}

Thinned::Thinned(const Evidence& evidence) {
    constexpr std::int64_t most = 8000;
    wrong_step_ = std::max<std::int64_t>(1, evidence.wrong_elements / most);
    right_step_ = std::max<std::int64_t>(1, (evidence.compared - evidence.wrong_elements) / most);
}

Uncertain passed_through(const Curve& curve, Uncertain x) {
    // Nothing is known of NaN; infinities have no error, and other bits of theirs are NaN, which maxima ignore.
    if (std::isnan(x.value)) return x;
    if (std::isinf(x.value)) {
        const bool stays = !curve.rule.is_line || !curve.domain.contains(x.value);
        const bool is_constant = curve.rule.slope == 0;
        return {stays ? x.value : is_constant ? curve.of(x.value) : curve.rule.slope * x.value, 0};
    }
    const double values[] = {curve.of(x.value), curve.of(x.value - x.error), curve.of(x.value + x.error)};
    const auto [low, high] = std::ranges::minmax(values);
    const double rounding = 2 * u_f32 * std::max(std::abs(low), std::abs(high));
    return {0.5 * (low + high), 0.5 * (high - low) + rounding};
}

void pass_through(const Curve& curve, double unit, Estimate& estimate) {
    for (Eigen::Index i = 0; i < estimate.value.size(); ++i) {
        double& value = estimate.value.data()[i];
        double& error = estimate.error.data()[i];
        const Uncertain passed = passed_through(curve, {value / unit, error / std::abs(unit)});
        value = passed.value * unit;
        error = passed.error * std::abs(unit);
    }
}

std::vector<Candidate> CurveCandidates::all() const {
    std::vector<Candidate> list = round;
    list.insert(list.end(), others.begin(), others.end());
    return list;
}

void add_curves(const Evidence& evidence, const std::vector<CurvePoint>& points, const std::string& variable,
                const std::function<Change(const Curve&)>& change, CurveCandidates& candidates) {
    for (const Curve& curve : curves_through(points, known_numbers(evidence), variable)) {
        (curve.is_round ? candidates.round : candidates.others)
            .push_back({{{"it is", curve.formula}},
                        change(curve),
                        curve.parameters,
                        0,
                        is_trivial(evidence, curve),
                        curve.rule.is_line && curve.rule.slope != 0 && curve.rule.slope != 1});
    }
}

}  // namespace tilescope
