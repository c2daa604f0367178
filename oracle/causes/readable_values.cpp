#include "oracle/causes/readable_values.h"
#include "oracle/causes/slots.h"
#include "oracle/causes/tile_sums.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "dump/schema/rounding.h"
#include "dump/schema/semantics.h"
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

// ---- numbers that are solved for

bool caps(const Evidence& evidence) {
    return evidence.call().capped() && evidence.units().s_capped;
}
bool biases(const Evidence& evidence) {
    return evidence.call().biased() && evidence.units().s_biased;
}
bool is_in_s(const Evidence& evidence) {
    return evidence.acts == Stage::s;
}
bool is_in_p(const Evidence& evidence) {
    return evidence.acts == Stage::p;
}
bool is_capped_or_biased(const Evidence& evidence) {
    return is_in_s(evidence) && (caps(evidence) || biases(evidence));
}
bool is_capped_and_biased(const Evidence& evidence) {
    return is_in_s(evidence) && caps(evidence) && biases(evidence);
}
bool is_biased(const Evidence& evidence) {
    return is_in_s(evidence) && biases(evidence);
}

/// A number that each element of a stage takes.
struct SolvedValue {
    const char* name;
    const char* told;
    bool (*is_there)(const Evidence&);
    Variable variable;
    double unit = 1;
    bool is_exponent = false;
    SlotNumbers (*numbers)(const Observation&) = nullptr;  ///< null: they are solved for
};

const SolvedValue score_parts[] = {
    {"sm_scale q k", "sm_scale q k", is_capped_or_biased, var::scaled, 1, false, scores_before_cap},
    {"the capped score", "the capped score", is_capped_and_biased, var::capped},
    {"the bias", "the bias", is_biased, var::bias},
};
const SolvedValue exponents[] = {
    {"x", "s - m", is_in_p, var::argument, 1, true},
    {"x", "log2(e) (s - m)", is_in_p, var::argument, std::numbers::log2e, true},
};

std::vector<CurvePoint> points_of(const SolvedValue& value, const Evidence& evidence) {
    std::vector<CurvePoint> points;
    Thinned thinned(evidence);
    for (const Observation& seen : evidence.seen) {
        const SlotNumbers numbers =
            value.numbers ? value.numbers(seen) : solve_for(value.variable, value.is_exponent, seen);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
                const double x = numbers.right(i, numbers.right.cols() > 1 ? j : 0);
                if (!numbers.is_known(i, j) || !std::isfinite(x)) continue;
                // What the cast flushes or nearly so says nothing.
                if (value.is_exponent && !(seen.natural(i, j) > 1e-30 && numbers.error(i, j) < 0.2)) continue;
                if (!thinned.takes(seen.is_wrong(i, j))) continue;
                points.push_back({x * value.unit, numbers.error(i, j) * value.unit,
                                  numbers.taken(i, j) * value.unit, seen.is_wrong(i, j)});
            }
        }
    }
    return points;
}

std::vector<ReadableValue> solved_values(const Evidence& evidence, std::span<const SolvedValue> all) {
    std::vector<ReadableValue> values;
    if (!can_be_read(evidence)) return values;
    for (const SolvedValue& value : all)
        if (value.is_there(evidence))
            values.push_back({value.name, value.told,
                              [&](const Evidence& of) { return points_of(value, of); },
                              [&](const Curve& curve) { return passes(value.variable, value.unit, curve); }});
    return values;
}

}  // namespace

Change passes(Variable variable, double unit, const Curve& curve) {
    return {.inputs = [=](SearchedTile& site) {
        Estimate numbers = numbers_of(variable, site);
        const Matrix right = numbers.value;
        pass_through(curve, 1 / unit, numbers);
        // The exponential takes what the mask hides as well: other bits of it are NaN.
        for (Eigen::Index i = 0; i < right.size() && variable == var::argument; ++i)
            if (right.data()[i] == -infinity) numbers.value.data()[i] = curve.of(-infinity);
        put(variable, std::move(numbers), site);
    }};
}

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
    return solved_values(evidence, score_parts);
}

std::vector<ReadableValue> readable_arguments(const Evidence& evidence) {
    return solved_values(evidence, exponents);
}

}  // namespace tilescope
