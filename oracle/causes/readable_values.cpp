#include "oracle/causes/readable_values.h"
#include "oracle/causes/tile_sums.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/scores.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// A kernel may leave out what it makes of o where the sum is nothing.
bool has_sum(const SearchedTile& site, Eigen::Index row) {
    return std::ranges::any_of(site.splits,
                               [=](const RunningState& split) { return sum_of_row(split.l.value, row) > 0; });
}

Change in_rows_with_sum(const Change& change) {
    return {.result = [of_all = change.result](const SearchedTile& site, Estimate& o) {
        const Estimate right = o;
        of_all(site, o);
        for (Eigen::Index i = 0; i < o.value.rows(); ++i) {
            if (has_sum(site, i)) continue;
            o.value.row(i) = right.value.row(i);
            o.error.row(i) = right.error.row(i);
        }
    }};
}

bool has_rows_without_sum(const Evidence& evidence) {
    return std::ranges::any_of(evidence.seen, [](const Observation& seen) {
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
            if (!has_sum(seen.site, i) && !seen.bad_rows[std::size_t(i)]) return true;
        return false;
    });
}

/// The stage's result as the dump has it, or in natural units, passed through a curve.
Change changes_result(Stage stage, bool natural, const Curve& curve) {
    return {.result = [=](const SearchedTile& site, Estimate& e) {
        if (stage == Stage::m) settle_maxima(site, e);
        const DumpFactor factor = is_operand(stage)
                                      ? DumpFactor()
                                      : dump_factor(*site.call, stage, site.first_row, site.first_key,
                                                    e.value.rows(), e.value.cols());
        for (Eigen::Index i = 0; i < e.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < e.value.cols(); ++j) {
                // Masks, and rows that see nothing, come after it.
                if (!std::isfinite(e.value(i, j)) && stage != Stage::m) continue;
                const double unit = natural ? 1 : factor.at(i, j);
                const Uncertain passed =
                    passed_through(curve, {e.value(i, j) * unit, e.error(i, j) * std::abs(unit)});
                e.value(i, j) = passed.value / unit;
                e.error(i, j) = passed.error / std::abs(unit);
                if (!std::isfinite(e.value(i, j))) continue;
                const double dumped = factor.at(i, j);
                e.error(i, j) += cast_after(site, stage, std::abs(e.value(i, j) * dumped)) / std::abs(dumped);
            }
        }
    }};
}

std::vector<CurvePoint> points_of_results(const Evidence& evidence, bool natural) {
    std::vector<CurvePoint> points;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        Estimate settled;
        if (evidence.acts == Stage::m) {
            settled = expected_with(evidence.known, Stage::m, seen.site);
            settle_maxima(seen.site, settled);
            settled = in_dump_units(settled, seen.factor);
        }
        const Estimate& expected = evidence.acts == Stage::m ? settled : seen.expected;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double x = expected.value(i, j);
                const double got = seen.got(i, j);
                if (!std::isfinite(x) || !std::isfinite(got)) continue;
                if (!thinned.takes(seen.is_wrong(i, j))) continue;
                const double unit = natural ? seen.factor.at(i, j) : 1;
                // What is there may have been rounded by more than what should be.
                const double cast = cast_after(seen.site, evidence.acts, std::abs(got));
                points.push_back({x / unit, (expected.error(i, j) + cast) / std::abs(unit), got / unit,
                                  seen.is_wrong(i, j)});
            }
        }
    }
    return points;
}

// ---- parts of a score

/// A part that a score is the sum of, or what its cap takes.
struct ScorePart {
    const char* name;
    bool (*is_there)(const HeadCall& call);
    Estimate (*of)(const SearchedTile& site);
    bool under_cap = false;
};

bool caps(const HeadCall& call) {
    return call.capped() && call.units.s_capped;
}
bool biases(const HeadCall& call) {
    return call.biased() && call.units.s_biased;
}

Estimate scaled_part(const SearchedTile& site) {
    return scaled_scores(*site.call, site.q, site.k);
}
Estimate capped_part(const SearchedTile& site) {
    return cap_scores(*site.call, scaled_part(site));
}
Estimate bias_part(const SearchedTile& site) {
    return add_bias(*site.call, site.first_row, site.first_key, zeros(site.rows(), site.keys()));
}

constexpr ScorePart score_parts[] = {
    {"sm_scale q k", [](const HeadCall& call) { return caps(call); }, scaled_part, true},
    {"sm_scale q k", [](const HeadCall& call) { return biases(call) && !caps(call); }, scaled_part},
    {"the capped score", [](const HeadCall& call) { return biases(call) && caps(call); }, capped_part},
    {"the bias", [](const HeadCall& call) { return biases(call); }, bias_part},
};

/// The score with another value of one of its parts: `was` and `is`, both in the score's units.
double with_part(double score, double was, double is, double cap) {
    if (cap == 0) return score + is - was;
    return score + cap * (std::tanh(is / cap) - std::tanh(was / cap));
}

Change changes_part(const ScorePart& part, const Curve& curve) {
    return {.result = [=](const SearchedTile& site, Estimate& s) {
        const Estimate was = part.of(site);
        const double cap = part.under_cap ? site.call->problem.logits_soft_cap : 0;
        for (Eigen::Index i = 0; i < s.value.size(); ++i) {
            double& value = s.value.data()[i];
            if (!std::isfinite(value)) continue;
            const double x = was.value.data()[i];
            const Uncertain is = passed_through(curve, {x, was.error.data()[i]});
            value = with_part(value, x, is.value, cap);
            s.error.data()[i] += is.error + 8 * u_f32 * (std::abs(value) + std::abs(is.value));
        }
    }};
}

std::vector<CurvePoint> points_of_part(const Evidence& evidence, const ScorePart& part) {
    std::vector<CurvePoint> points;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        const Estimate was = part.of(seen.site);
        const double cap = part.under_cap ? seen.site.call->problem.logits_soft_cap : 0;
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double factor = seen.factor.at(i, j);
                const double expected = seen.expected.value(i, j) / factor;
                const double x = was.value(i, j);
                double got = seen.natural(i, j) - expected + x;
                double error = seen.expected.error(i, j) / std::abs(factor) + 4 * u_f32 * std::abs(expected);
                if (cap != 0) {
                    const double tangent = (seen.natural(i, j) - expected) / cap + std::tanh(x / cap);
                    // Near the cap a score is anything.
                    if (!(std::abs(tangent) < 0.9)) continue;
                    got = cap * std::atanh(tangent);
                    error = std::max(error / (1 - tangent * tangent), was.error(i, j));
                }
                if (!std::isfinite(got) || !std::isfinite(x) || !thinned.takes(seen.is_wrong(i, j))) continue;
                points.push_back({x, error, got, seen.is_wrong(i, j)});
            }
        }
    }
    return points;
}

// ---- arguments of the exponential

/// s - m, from rows that see a key.
double argument_of(const SearchedTile& site, const Matrix& s, Eigen::Index i, Eigen::Index j) {
    const double m = site.m.value(i, 0);
    return s(i, j) - (m == -infinity ? 0 : m);
}

Change changes_argument(double unit, const Curve& curve) {
    return {.inputs = [=](SearchedTile& site) {
        take_finished_scores(site);
        Matrix& s = site.dumped_s.value;
        for (Eigen::Index i = 0; i < s.rows(); ++i) {
            if (site.m.value(i, 0) == -infinity) site.m.value(i, 0) = 0;
            for (Eigen::Index j = 0; j < s.cols(); ++j) {
                double& error = site.dumped_s.error(i, j);
                const double x = argument_of(site, s, i, j);
                Uncertain is = passed_through(curve, {x * unit, error * unit});
                // Other bits of what the mask hides are NaN.
                if (x == -infinity) is.value = curve.of(x);
                s(i, j) = is.value / unit + site.m.value(i, 0);
                error = std::isfinite(s(i, j))
                            ? is.error / unit + 4 * u_f32 * (std::abs(s(i, j)) + std::abs(site.m.value(i, 0)))
                            : 0;
            }
        }
        site.own_call().units.m_stale_threshold = infinity;
    }};
}

std::vector<CurvePoint> points_of_arguments(const Evidence& evidence, double unit) {
    std::vector<CurvePoint> points;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        const Estimate s = finished_scores(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double x = argument_of(seen.site, s.value, i, j);
                const double got = seen.natural(i, j);
                // What the cast flushes or nearly so says nothing.
                if (!std::isfinite(x) || !(got > 1e-30) || std::isinf(got)) continue;
                if (!thinned.takes(seen.is_wrong(i, j))) continue;
                const double cast =
                    cast_after(seen.site, Stage::p, double(seen.got(i, j))) / double(seen.got(i, j));
                if (cast > 0.2) continue;
                const double error =
                    s.error(i, j) + cast + 4e-7 * (1 + std::abs(x) + std::abs(s.value(i, j)));
                points.push_back({x * unit, error * unit, std::log(got) * unit, seen.is_wrong(i, j)});
            }
        }
    }
    return points;
}

}  // namespace

void settle_maxima(const SearchedTile& site, Estimate& m) {
    const double threshold = site.call->units.m_stale_threshold;
    if (threshold == 0) return;
    const Estimate s = finished_scores(site);
    for (Eigen::Index i = 0; i < m.value.rows(); ++i) {
        const double before = site.before.m.value(i, 0);
        const double most = s.value.cols() > 0 ? s.value.row(i).maxCoeff() : -infinity;
        const double settled = risen(before, most, threshold);
        if (!std::isfinite(settled)) continue;
        m.value(i, 0) = settled;
        m.error(i, 0) = 8 * u_f32 * std::abs(settled);
    }
}

std::vector<ReadableValue> readable_results(const Evidence& evidence) {
    std::vector<ReadableValue> values;
    if (!results_can_be_read(evidence)) return values;
    const Stage stage = evidence.acts;
    for (const bool natural : {false, true}) {
        if (natural && evidence.seen.front().factor.at(0, 0) == 1) break;
        values.push_back({std::string(stage_info(stage).name), natural ? "natural units" : "",
                          [=](const Evidence& of) { return points_of_results(of, natural); },
                          [=](const Curve& curve) { return changes_result(stage, natural, curve); }});
    }
    if (stage == Stage::o && can_be_read(evidence) && has_rows_without_sum(evidence))
        values.push_back(
            {"o", "rows that see a key", [=](const Evidence& of) { return points_of_results(of, true); },
             [=](const Curve& curve) { return in_rows_with_sum(changes_result(stage, true, curve)); }});
    return values;
}

std::vector<ReadableValue> readable_score_parts(const Evidence& evidence) {
    std::vector<ReadableValue> values;
    if (!can_be_read(evidence) || evidence.acts != Stage::s) return values;
    for (const ScorePart& part : score_parts) {
        if (!part.is_there(evidence.call())) continue;
        values.push_back({part.name, part.name,
                          [&part](const Evidence& of) { return points_of_part(of, part); },
                          [&part](const Curve& curve) { return changes_part(part, curve); }});
    }
    return values;
}

std::vector<ReadableValue> readable_arguments(const Evidence& evidence) {
    std::vector<ReadableValue> values;
    if (!can_be_read(evidence) || evidence.acts != Stage::p) return values;
    for (const double unit : {1.0, std::numbers::log2e})
        values.push_back({"x", unit == 1 ? "s - m" : "log2(e) (s - m)",
                          [=](const Evidence& of) { return points_of_arguments(of, unit); },
                          [=](const Curve& curve) { return changes_argument(unit, curve); }});
    return values;
}

}  // namespace tilescope
