// Mistakes where lanes and splits come together at the end: what o is divided by, how splits are weighted, and
// what lse is made of, solved for row by row.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/causes/combinations.h"
#include "oracle/causes/readable_values.h"
#include "oracle/solve/combination.h"
#include "oracle/solve/least_squares.h"

namespace tilescope {

namespace {

/// A row of o beside the states that it is made of.
struct MergedRow {
    const Observation* seen = nullptr;
    RunningState whole;             ///< of this row alone
    std::vector<double> weights{};  ///< exp(m - top) of each split
    double divisor = 0;             ///< acc / o, in the dump's units of l
    double error = 0;               ///< relative
    Eigen::Index row = 0;
    bool wrong = false;
};

double sum_unit(const HeadCall& call) {
    return call.units.l_scale;
}

Estimate one_row(const Estimate& estimate, Eigen::Index row) {
    return {estimate.value.row(row), estimate.error.row(row)};
}

/// acc / o from the element that tells it best; nullopt where the elements do not agree.
std::optional<double> common_divisor(const Observation& seen, const RunningState& whole, Eigen::Index row,
                                     bool wrong, double& error) {
    const double unit = seen.site.call->units.acc_scale;
    Eigen::Index best = -1;
    for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
        if (wrong && !seen.is_wrong(row, j)) continue;
        if (best < 0 || std::abs(whole.acc.value(row, j)) > std::abs(whole.acc.value(row, best))) best = j;
    }
    if (best < 0 || whole.acc.value(row, best) == 0 || !(std::abs(seen.natural(row, best)) > 0))
        return std::nullopt;
    const double divisor = whole.acc.value(row, best) * unit / seen.natural(row, best);
    const auto relative = [&](Eigen::Index j) {
        return seen.expected.error(row, j) / std::abs(seen.expected.value(row, j));
    };
    error = relative(best);
    std::int64_t agreeing = 0;
    std::int64_t others = 0;
    for (Eigen::Index j = 0; j < seen.got.cols(); ++j) {
        if ((wrong && !seen.is_wrong(row, j)) || !(relative(j) < 0.1)) continue;
        const double here = whole.acc.value(row, j) * unit / seen.natural(row, j);
        (std::abs(here / divisor - 1) <= 2 * (relative(j) + error) + 1e-6 ? agreeing : others) += 1;
    }
    if (others * 20 > agreeing || !std::isfinite(divisor)) return std::nullopt;
    return divisor;
}

/// Rows whose elements agree on what acc was divided by; none where more than a few wrong ones do not.
std::vector<MergedRow> merged_rows(const Evidence& evidence) {
    std::vector<MergedRow> rows;
    std::int64_t disagreeing = 0;
    for (const Observation& seen : evidence.seen) {
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            const bool wrong = seen.bad_rows[std::size_t(i)];
            MergedRow row{&seen, {one_row(whole.m, i), one_row(whole.l, i), one_row(whole.acc, i)}};
            row.row = i;
            row.wrong = wrong;
            const auto divisor = common_divisor(seen, whole, i, wrong, row.error);
            disagreeing += wrong && !divisor;
            if (!divisor) continue;
            row.divisor = *divisor;
            for (const RunningState& split : seen.site.splits)
                row.weights.push_back(split.m.value(i, 0) == -infinity
                                          ? 0
                                          : std::exp(split.m.value(i, 0) - whole.m.value(i, 0)));
            rows.push_back(std::move(row));
        }
    }
    const auto wrong = std::ranges::count_if(rows, &MergedRow::wrong);
    if (disagreeing * 20 > wrong) rows.clear();
    return rows;
}

/// The splits as one, whose sum `change` makes another one.
Change sums_as(std::function<void(const SearchedTile&, RunningState& whole)> change) {
    return {.inputs = [change = std::move(change)](SearchedTile& site) {
        RunningState whole = whole_state(site);
        change(site, whole);
        HeadCall& call = site.own_call();
        call.problem.kv_tiles_per_split = 0;
        call.problem.split_starts.clear();
        call.problem.l_lanes = 1;
        site.splits = {std::move(whole)};
    }};
}

bool is_merge(const Evidence& evidence) {
    return can_be_read(evidence) && evidence.problem().sink == AttentionSink::none;
}

void add_functions_of_sum(const Evidence& evidence, const std::vector<MergedRow>& rows,
                          std::vector<Candidate>& candidates) {
    const double unit = sum_unit(evidence.call());
    std::vector<CurvePoint> points;
    for (const MergedRow& row : rows) {
        const double l = row.whole.l.value(0, 0) * unit;
        points.push_back({l, row.error * std::abs(l), row.divisor, row.wrong});
    }
    const auto change = [=](const Curve& curve) { return passes(var::l, unit, curve); };
    CurveCandidates found;
    add_curves(evidence, points, "l", change, found);
    for (Candidate& candidate : found.all()) {
        candidate.parameters = {{"o", "acc / (" + candidate.parameters[0].value + ")"}};
        candidates.push_back(std::move(candidate));
    }
}

/// acc / (c l^k).
void add_powers_of_sum(const Evidence& evidence, const std::vector<MergedRow>& rows,
                       std::vector<Candidate>& candidates) {
    const double unit = sum_unit(evidence.call());
    std::vector<CurvePoint> points;
    for (const MergedRow& row : rows) {
        const double l = row.whole.l.value(0, 0) * unit;
        if (row.wrong && l > 0 && row.divisor > 0)
            points.push_back({std::log(l), row.error, std::log(row.divisor), true});
    }
    for (const Curve& curve : lines_through(points, {}, "log l")) {
        const double power = curve.rule.slope;
        const double factor = std::exp(curve.rule.offset);
        if (power == 1 || power != std::round(power)) continue;
        std::string text = power == -1 ? "acc * l" : fmt::format("acc / l^{:g}", power);
        if (factor != 1) text += fmt::format(" / {:.6g}", factor);
        // In natural units.
        const double offset = curve.rule.offset + (power - 1) * std::log(unit);
        const Expr divisor = exp(number(power) * log(Expr(var::l)) + number(offset));
        candidates.push_back({{{"o", text}}, rewritten({{var::l, divisor}}), 1 + (factor != 1)});
    }
}

/// The parts that l is the sum of: each lane of each split.
std::vector<double> parts_of_sum(const MergedRow& row) {
    std::vector<double> parts;
    const auto& splits = row.seen->site.splits;
    for (std::size_t z = 0; z < splits.size(); ++z) {
        for (Eigen::Index lane = 0; lane < splits[z].l.value.cols(); ++lane)
            parts.push_back(row.weights[z] * splits[z].l.value(row.row, lane));
    }
    return parts;
}

std::vector<std::string> names_of_parts(std::size_t splits, std::int64_t lanes, const char* value) {
    std::vector<std::string> names;
    for (std::size_t z = 0; z < splits; ++z) {
        for (std::int64_t lane = 0; lane < lanes; ++lane) {
            std::string name = value;
            if (lanes > 1) name += fmt::format(" of lane {}", lane);
            if (splits > 1) name += fmt::format(" of split {}", z);
            names.push_back(name);
        }
    }
    return names;
}

/// "lanes 0-6", of coefficients that are 0 or 1 of a run of lanes.
std::optional<std::string> run_of_lanes(const std::vector<KnownNumber>& coefficients) {
    std::vector<bool> taken;
    for (const KnownNumber& c : coefficients) {
        if (c.value != 0 && c.value != 1) return std::nullopt;
        taken.push_back(c.value == 1);
    }
    const auto places = places_of(taken);
    return places ? std::optional("l of lanes " + to_string(*places)) : std::nullopt;
}

/// How many coefficients are not the one of a healthy kernel.
int unusual(const std::vector<KnownNumber>& coefficients) {
    return int(std::ranges::count_if(coefficients, [](const KnownNumber& c) { return c.value != 1; }));
}

double weight_of_split(const RunningState& split, const RunningState& whole, Eigen::Index row) {
    const double m = split.m.value(row, 0);
    return m == -infinity ? 0 : std::exp(m - whole.m.value(row, 0));
}

void add_sums_of_parts(const Evidence& evidence, const std::vector<MergedRow>& rows,
                       std::vector<Candidate>& candidates) {
    const double unit = sum_unit(evidence.call());
    const std::size_t splits = evidence.seen.front().site.splits.size();
    const std::int64_t lanes = evidence.problem().l_lanes;
    const std::size_t parts = splits * std::size_t(lanes);
    if (parts < 2 || parts > 16) return;
    std::vector<Equation> equations;
    for (const MergedRow& row : rows) {
        if (!row.wrong) continue;
        equations.push_back(
            {parts_of_sum(row), row.divisor / unit, row.error * std::abs(row.divisor / unit)});
    }
    const auto found = combination_of(equations, known_numbers(evidence));
    if (!found || unusual(*found) == 0) return;
    const auto change = [=, c = *found](const SearchedTile& site, RunningState& whole) {
        for (Eigen::Index i = 0; i < whole.l.value.rows(); ++i) {
            double sum = 0;
            for (std::size_t part = 0; part < c.size(); ++part) {
                const RunningState& split = site.splits[part / std::size_t(lanes)];
                sum += c[part].value * weight_of_split(split, whole, i) *
                       split.l.value(i, Eigen::Index(part % std::size_t(lanes)));
            }
            // A kernel has no o where its sum is nothing.
            if (sum <= 0) whole.acc.value.row(i).setZero();
            if (sum <= 0) whole.acc.error.row(i).setZero();
            if (sum > 0) whole.l.value(i, 0) = sum;
        }
    };
    const auto run = splits == 1 ? run_of_lanes(*found) : std::nullopt;
    const std::string text = run ? *run : text_of_sum(*found, names_of_parts(splits, lanes, "l"));
    candidates.push_back({{{"l", text}}, sums_as(change), unusual(*found)});
}

std::vector<Candidate> output_of_other_sum(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!is_merge(evidence)) return {};
    const std::vector<MergedRow> rows = merged_rows(evidence);
    add_functions_of_sum(evidence, rows, candidates);
    add_powers_of_sum(evidence, rows, candidates);
    add_sums_of_parts(evidence, rows, candidates);
    return candidates;
}

// ---- weights of splits

bool has_splits(const Evidence& evidence) {
    return is_merge(evidence) && evidence.problem().is_split() &&
           evidence.seen.front().site.splits.size() > 1;
}

/// The weights with which the splits make a row of o, up to a factor: sum w (acc - o l) is 0 in every column.
std::optional<Eigen::VectorXd> split_weights(const Observation& seen, Eigen::Index row) {
    const auto& splits = seen.site.splits;
    const auto count = std::ssize(splits);
    if (seen.got.cols() < count + 4) return std::nullopt;
    Eigen::MatrixXd matrix(seen.got.cols(), count);
    double size = 0;
    for (Eigen::Index z = 0; z < count; ++z) {
        const RunningState& split = splits[std::size_t(z)];
        if (split.m.value(row, 0) == -infinity) return std::nullopt;
        const double l = sum_of_row(split.l.value, row);
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
            matrix(j, z) = split.acc.value(row, j) - seen.natural(row, j) * l;
        size += matrix.col(z).squaredNorm();
    }
    if (!matrix.allFinite()) return std::nullopt;
    VanishingCombination found = vanishing_combination(matrix);
    // One combination alone vanishes.
    if (found.next < 0.02 * std::sqrt(size)) return std::nullopt;
    return std::move(found.factors);
}

/// exp(power m) in place of exp(m).
Change weighs_by_power(double power) {
    return {.inputs = [=](SearchedTile& site) {
        const RunningState whole = whole_state(site);
        for (RunningState& split : site.splits) {
            for (Eigen::Index i = 0; i < split.m.value.rows(); ++i) {
                const double below = split.m.value(i, 0) - whole.m.value(i, 0);
                if (!std::isfinite(below)) continue;
                const double factor = std::exp((power - 1) * below);
                for (Estimate* part : {&split.l, &split.acc}) {
                    part->value.row(i) *= factor;
                    part->error.row(i) *= factor;
                    part->error.row(i) += 4 * u_f32 * (1 + std::abs(below)) * part->value.row(i).cwiseAbs();
                }
            }
        }
    }};
}

/// log w against m, from the splits of each row.
std::vector<Candidate> split_weight_power(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_splits(evidence)) return {};
    std::vector<CurvePoint> points;
    for (const Observation& seen : evidence.seen) {
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            const auto weights = seen.bad_rows[std::size_t(i)] ? split_weights(seen, i) : std::nullopt;
            if (!weights) continue;
            Eigen::Index top = 0;
            for (Eigen::Index z = 1; z < weights->size(); ++z)
                if (seen.site.splits[std::size_t(z)].m.value(i, 0) >
                    seen.site.splits[std::size_t(top)].m.value(i, 0))
                    top = z;
            for (Eigen::Index z = 0; z < weights->size(); ++z) {
                const double ratio = (*weights)(z) / (*weights)(top);
                const double below = seen.site.splits[std::size_t(z)].m.value(i, 0) - whole.m.value(i, 0);
                if (z != top && ratio > 1e-3) points.push_back({below, 0.03, std::log(ratio), true});
            }
        }
    }
    for (const Curve& curve : lines_through(points, {}, "m")) {
        // A multiple of all weights is none.
        if (curve.rule.offset != 0 || curve.rule.slope == 1) continue;
        const std::string power = digits(curve.rule.slope);
        candidates.push_back({{{"weight", curve.rule.slope == 0 ? "1" : "exp(" + power + " * (m - top))"}},
                              weighs_by_power(curve.rule.slope),
                              1});
    }
    return candidates;
}

/// One split alone, or acc with other factors than l.
std::vector<Candidate> split_parts(const Evidence& evidence) {
    std::vector<Candidate> candidates;
    if (!has_splits(evidence)) return {};
    const std::size_t splits = evidence.seen.front().site.splits.size();
    if (splits > 16) return {};
    std::vector<Equation> equations;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const RunningState whole = whole_state(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            for (Eigen::Index j = 0; j < seen.got.cols() && equations.size() < 4000; ++j) {
                if (!seen.is_wrong(i, j) || !std::isfinite(seen.got(i, j))) continue;
                Equation equation;
                for (const RunningState& split : seen.site.splits)
                    equation.terms.push_back(weight_of_split(split, whole, i) * split.acc.value(i, j));
                const double l = whole.l.value(i, 0);
                equation.got = seen.natural(i, j) * l;
                equation.error = seen.expected.error(i, j) * l;
                equations.push_back(std::move(equation));
            }
        }
    }
    const auto found = combination_of(equations, known_numbers(evidence));
    if (!found || unusual(*found) == 0) return {};
    const auto change = [c = *found](const SearchedTile& site, RunningState& whole) {
        for (Eigen::Index i = 0; i < whole.acc.value.rows(); ++i) {
            whole.acc.value.row(i).setZero();
            for (std::size_t z = 0; z < c.size(); ++z)
                whole.acc.value.row(i) +=
                    c[z].value * weight_of_split(site.splits[z], whole, i) * site.splits[z].acc.value.row(i);
        }
    };
    candidates.push_back(
        {{{"acc", text_of_sum(*found, names_of_parts(splits, 1, "acc"))}}, sums_as(change), unusual(*found)});
    return candidates;
}

// ---- lse

std::vector<Candidate> lse_combination(const Evidence& evidence) {
    if (!is_merge(evidence)) return {};
    return combinations(evidence, {"lse", var::result, {var::m, log(var::l), var::l, 1}, {1, 1, 0, 0}});
}

}  // namespace

std::vector<Cause> identified_merge_causes() {
    const std::vector<Stage> o = {Stage::o};
    return {
        {"output_of_other_sum", "split / combine", o,
         "the output is divided by something else than the row sum",
         "what acc is divided by, and which lanes and splits the sum covers", output_of_other_sum},
        {"split_weight_power", "split / combine", o,
         "splits are weighted with another exponential of their maxima", "the weights of the splits",
         split_weight_power},
        {"split_parts", "split / combine", o, "splits join the output with other factors than the sum",
         "the loop that adds up acc of the splits", split_parts},
        {"lse_combination",
         "constants",
         {Stage::lse},
         "the log-sum-exp is made otherwise of maximum and row sum",
         "lse = m + log(l)",
         lse_combination},
    };
}

}  // namespace tilescope
