// Mistakes in what the maximum reads of each score: it is taken of a function of them, of all or of some columns.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "oracle/causes/curves.h"
#include "oracle/causes/readable_values.h"
#include "oracle/causes/signature.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

/// From rows whose maximum the tile changed: what it became there is of the tile's own scores.
std::vector<CurvePoint> points_of_maxima(const Evidence& evidence, bool least) {
    std::vector<CurvePoint> points;
    for (const Observation& seen : evidence.seen) {
        const Estimate s = finished_scores(seen.site);
        for (Eigen::Index i = 0; i < s.value.rows(); ++i) {
            if (!seen.site.begins && seen.natural(i, 0) <= seen.site.before.m.value(i, 0)) continue;
            double x = least ? infinity : -infinity;
            double error = 0;
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                const double score = s.value(i, j);
                if (!std::isfinite(score) || (least ? score >= x : score <= x)) continue;
                x = score;
                error = s.error(i, j);
            }
            if (!std::isfinite(x) || !std::isfinite(seen.got(i, 0))) continue;
            // Not by what the threshold of a stale maximum leaves open: the tile has changed it.
            const double unit = seen.factor.at(i, 0);
            points.push_back({x * unit, (error + 8 * u_f32 * std::abs(x)) * std::abs(unit),
                              double(seen.got(i, 0)), seen.is_wrong(i, 0)});
        }
    }
    return points;
}

/// Of the columns that are in a place; of all of them where there is none.
using ColumnsOfMaximum = std::optional<Places>;

bool contains(const ColumnsOfMaximum& columns, Eigen::Index column) {
    return !columns || columns->contains(column);
}

Change changes_scores(double unit, const Curve& curve, const ColumnsOfMaximum& columns) {
    return {.inputs =
                [=](SearchedTile& site) {
                    take_finished_scores(site);
                    Estimate& s = site.dumped_s;
                    for (Eigen::Index j = 0; j < s.value.cols(); ++j) {
                        if (!contains(columns, j)) continue;
                        Estimate column{s.value.col(j), s.error.col(j)};
                        pass_through(curve, 1 / unit, column);
                        s.value.col(j) = column.value;
                        s.error.col(j) = column.error;
                    }
                },
            .result = settle_maxima};
}

/// A row whose maximum is wrong, in the units of the curve.
struct WrongMaximum {
    std::vector<double> scores;
    double before = 0;
    double threshold = 0;
    double got = 0;

    bool is_of(const Curve& curve, const ColumnsOfMaximum& columns) const {
        double most = -infinity;
        for (std::size_t c = 0; c < scores.size(); ++c) {
            const double score = scores[c];
            const double x =
                contains(columns, Eigen::Index(c)) ? passed_through(curve, {score, 0}).value : score;
            if (x > most) most = x;
        }
        const double value = most > before + threshold ? most : before;
        return value == got || std::abs(value - got) <= 1e-6 * std::abs(got);
    }
};

std::vector<WrongMaximum> wrong_maxima(const Evidence& evidence) {
    constexpr std::int64_t most = 256;
    std::vector<WrongMaximum> wrong;
    const std::int64_t step = evidence.wrong_elements / most + 1;
    std::int64_t met = 0;
    for (const Observation& seen : evidence.seen) {
        if (!seen.is_bad()) continue;
        const Estimate s = finished_scores(seen.site);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i) {
            if (!seen.is_wrong(i, 0) || !std::isfinite(seen.got(i, 0)) || met++ % step != 0) continue;
            const double unit = seen.factor.at(i, 0);
            WrongMaximum row{{},
                             seen.site.before.m.value(i, 0) * unit,
                             seen.site.call->units.m_stale_threshold * unit,
                             double(seen.got(i, 0))};
            for (Eigen::Index j = 0; j < s.value.cols(); ++j) row.scores.push_back(s.value(i, j) * unit);
            wrong.push_back(std::move(row));
        }
    }
    return wrong;
}

bool are_of(const std::vector<WrongMaximum>& wrong, const Curve& curve, const ColumnsOfMaximum& columns) {
    const std::size_t most_off = wrong.size() / 50;
    std::size_t off = 0;
    for (const WrongMaximum& row : wrong)
        if (!row.is_of(curve, columns) && ++off > most_off) return false;
    return true;
}

/// The number that most rows have in common: one score of a row is what its maximum was made of.
std::optional<double> elected(std::vector<double> numbers) {
    std::ranges::sort(numbers);
    std::size_t most = 0;
    double value = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        while (numbers[i] - numbers[first] > 1e-6 * (1e-3 + std::abs(numbers[i]))) ++first;
        if (i + 1 - first <= most) continue;
        most = i + 1 - first;
        value = numbers[(i + first) / 2];
    }
    // The other rows show what was there before, or a column that is right.
    constexpr std::size_t fewest_votes = 4;
    if (most < fewest_votes) return std::nullopt;
    return value;
}

/// Lines that the scores beyond a bound may be on, or those below it: the bounds are simple numbers.
std::vector<Curve> curves_with_bound(const std::vector<WrongMaximum>& wrong,
                                     const std::vector<CurveRule>& lines) {
    using enum CurveDomain::Kind;
    double most = 0;
    for (const WrongMaximum& row : wrong)
        for (const double score : row.scores)
            if (std::isfinite(score)) most = std::max(most, std::abs(score));
    std::vector<Curve> curves;
    for (const CurveRule& line : lines) {
        for (const auto kind : {above, below}) curves.push_back(curve_of({kind, 0}, line, "s"));
        for (const double bound : simple_numbers_below(most))
            for (const CurveDomain& domain :
                 {CurveDomain{above, bound}, CurveDomain{above, -bound}, CurveDomain{below, bound},
                  CurveDomain{below, -bound}, CurveDomain{within, bound}, CurveDomain{beyond, bound}})
                curves.push_back(curve_of(domain, line, "s"));
    }
    std::ranges::stable_sort(curves, {}, &Curve::parameters);
    return curves;
}

/// Functions that may have been applied to all scores, or by a bit: a factor or an offset that the rows elect, other bits.
struct ScoreCurves {
    std::vector<Curve> of_all;
    std::vector<Curve> with_bound;
};

ScoreCurves curves_of_scores(const Evidence& evidence, const std::vector<WrongMaximum>& wrong) {
    std::vector<Curve> curves;
    std::vector<double> factors;
    std::vector<double> offsets;
    std::vector<double> sums;
    for (const WrongMaximum& row : wrong) {
        if (row.got == row.before) continue;
        for (const double score : row.scores) {
            // A score as it is may be of a column that is right.
            if (!std::isfinite(score) || score == 0 || std::abs(row.got - score) <= 1e-4 * std::abs(score))
                continue;
            factors.push_back(row.got / score);
            offsets.push_back(row.got - score);
            sums.push_back(row.got + score);
        }
    }
    std::vector<CurveRule> lines;
    if (const auto factor = elected(std::move(factors)))
        lines.push_back(
            {.slope = simplest_number(*factor, 2e-6 * std::abs(*factor), known_numbers(evidence)).value});
    if (const auto offset = elected(std::move(offsets)))
        lines.push_back({.offset = simplest_number(*offset, 1e-6, {}).value});
    for (const CurveRule& line : lines) curves.push_back(curve_of({}, line, "s"));
    if (const auto sum = elected(std::move(sums)))
        lines.push_back({.slope = -1, .offset = simplest_number(*sum, 1e-6, {}).value});
    for (const double slope : {-1.0, 2.0, 0.5, 0.0}) lines.push_back({.slope = slope});
    for (int bit = 23; bit >= 16; --bit)
        for (const double slope : {-1.0, 2.0, 0.5, 0.0})
            curves.push_back(curve_of({CurveDomain::Kind::bit_set, 0, bit}, {.slope = slope}, "s"));
    for (const CurveRule& rule : simple_bit_rules()) curves.push_back(curve_of({}, rule, "s"));
    return {std::move(curves), curves_with_bound(wrong, lines)};
}

/// Of all columns, the maxima themselves are rounded.
std::vector<Curve> roundings_of_some_scores() {
    std::vector<Curve> curves;
    for (const DtypeInfo& info : narrow_dtypes()) {
        CurveRule rule{.is_line = false};
        rule.grid = grid_of(info);
        curves.push_back({{}, rule, 1, true, fmt::format("s rounded to {}", info.name)});
    }
    return curves;
}

std::vector<ColumnsOfMaximum> columns_of_maxima(std::int64_t block_n) {
    std::vector<ColumnsOfMaximum> all = {std::nullopt};
    for (const Places& part : parts_of(block_n)) all.emplace_back(part);
    for (std::int64_t first = 1; first < block_n; ++first)
        all.emplace_back(Places{0, first, block_n - first});
    return all;
}

/// Maxima of some columns, and of functions that the largest score does not show.
void add_searched(const Evidence& evidence, std::vector<Candidate>& candidates) {
    constexpr std::size_t fewest = 6;
    const std::vector<WrongMaximum> wrong = wrong_maxima(evidence);
    if (wrong.size() < fewest) return;
    const double unit = evidence.seen.front().factor.at(0, 0);
    const ScoreCurves curves = curves_of_scores(evidence, wrong);
    std::size_t found = 0;
    const auto add = [&](const Curve& curve, const ColumnsOfMaximum& columns) {
        if (!are_of(wrong, curve, columns)) return;
        Candidate candidate{{{"it is", curve.formula}},
                            changes_scores(unit, curve, columns),
                            curve.parameters + (columns ? 2 : 0)};
        if (columns) candidate.parameters.push_back({"columns", to_string(*columns)});
        candidates.push_back(std::move(candidate));
        ++found;
    };
    const std::vector<Curve> roundings = roundings_of_some_scores();
    constexpr std::size_t most_bounds = 16;
    for (const Curve& curve : curves.with_bound)
        if (found < most_bounds) add(curve, std::nullopt);
    for (const ColumnsOfMaximum& columns : columns_of_maxima(evidence.problem().block_n)) {
        for (const Curve& curve : curves.of_all) add(curve, columns);
        if (columns)
            for (const Curve& curve : roundings) add(curve, columns);
        // The first columns that it is true of are the simplest.
        constexpr std::size_t enough = 4;
        if (found >= enough || (!columns && found > 0)) return;
    }
}

std::vector<Candidate> maximum_of_function(const Evidence& evidence) {
    CurveCandidates curves;
    if (!can_be_read(evidence)) return {};
    const double unit = evidence.seen.front().factor.at(0, 0);
    for (const bool least : {false, true}) {
        add_curves(
            evidence, points_of_maxima(evidence, least), "s",
            [=](const Curve& curve) { return changes_scores(unit, curve, std::nullopt); }, curves);
    }
    std::vector<Candidate> candidates = curves.all();
    add_searched(evidence, candidates);
    return candidates;
}

}  // namespace

std::vector<Cause> identified_maximum_causes() {
    return {{"maximum_of_function",
             "values",
             {Stage::m},
             "the maximum is taken of a function of the scores",
             "what the maximum reads of each score",
             maximum_of_function}};
}

}  // namespace tilescope
