#include "oracle/judge/tally.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "dump/recording/visible_tiles.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/vector_kernels.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Where the expected value may round to an infinity of `dtype`, that infinity is right.
bool overflows_alike(Dtype dtype, double got, double expected, double tolerance) {
    if (!std::isinf(got)) return false;
    const double reach = std::copysign(std::abs(expected) + tolerance, expected);
    return std::isinf(decode(dtype, encode(dtype, reach))) && std::signbit(reach) == std::signbit(got);
}

void keep_first(const Element& element, std::optional<Element>& first) {
    if (!first || comes_before(element, *first)) first = element;
}

void keep_worst(const Element& element, int top, std::vector<Element>& worst) {
    const auto worse = [](const Element& a, const Element& b) {
        return a.ratio() != b.ratio() ? a.ratio() > b.ratio() : comes_before(a, b);
    };
    if (std::ssize(worst) >= top && (top == 0 || !worse(element, worst.back()))) return;
    worst.insert(std::upper_bound(worst.begin(), worst.end(), element, worse), element);
    if (std::ssize(worst) > top) worst.pop_back();
}

void narrow(double expected, double tolerance, double& highest_lower, double& lowest_upper) {
    if (!std::isfinite(expected)) return;
    highest_lower = std::max(highest_lower, expected - tolerance);
    lowest_upper = std::min(lowest_upper, expected + tolerance);
}

/// Nothing to do as soon as no constant is left, which is nearly always after a tile or two.
void narrow_constants(const Estimate& expected, StageTally& tally) {
    if (tally.highest_lower > tally.lowest_upper) return;
    for (Eigen::Index i = 0; i < expected.value.size(); ++i)
        narrow(expected.value.data()[i], expected.error.data()[i], tally.highest_lower, tally.lowest_upper);
}

/// Whether an output is a constant, of one element.
void add_value(float got, double expected, double error, StageTally& tally) {
    if (!std::isfinite(got)) return;
    tally.least_got = std::min(tally.least_got, double(got));
    tally.most_got = std::max(tally.most_got, double(got));
    narrow(expected, error / 2, tally.highest_half_lower, tally.lowest_half_upper);
}

/// Of a tile that matches. What is known to vary is not looked at any further.
void add_values(const MatrixF& got, const Estimate& expected, StageTally& tally) {
    for (Eigen::Index i = 0; i < got.size() && tally.least_got >= tally.most_got; ++i)
        add_value(got.data()[i], expected.value.data()[i], expected.error.data()[i], tally);
}

bool may_be_worst(const Element& element, const CompareOptions& options) {
    return element.row == options.only_row.value_or(element.row) &&
           element.tile.kv_tile == options.only_kv_tile.value_or(element.tile.kv_tile);
}

void count_finding(const Element& element, const CompareOptions& options, StageTally& tally) {
    switch (element.finding) {
        case Finding::nan:
            ++tally.nan;
            keep_first(element, tally.first_nan);
            break;
        case Finding::infinite:
            ++tally.infinite;
            keep_first(element, tally.first_infinite);
            break;
        case Finding::unwritten:
            ++tally.unwritten;
            keep_first(element, tally.first_unwritten);
            break;
        case Finding::not_judged:
            ++tally.not_judged;
            break;
        case Finding::match:
        case Finding::indifferent:
        case Finding::outside:
        case Finding::conflicting:
            break;
    }
    if (!is_divergence(element.finding)) return;
    ++tally.outside;
    keep_first(element, tally.first);
    if (may_be_worst(element, options)) keep_worst(element, options.top, tally.worst);
}

void count_bad_row(const Element& element, StageTally& tally) {
    const BadRow row{element.tile.batch, element.tile.head, element.row, 0};
    const bool same = !tally.bad_rows.empty() && tally.bad_rows.back().batch == row.batch &&
                      tally.bad_rows.back().head == row.head && tally.bad_rows.back().row == row.row;
    if (!same) tally.bad_rows.push_back(row);
    ++tally.bad_rows.back().elements;
}

bool tells(double tolerance, double spread) {
    return std::isfinite(tolerance) && !(spread > 0 && tolerance >= spread);
}

const double* spread_of(const Estimate& estimate) {
    return estimate.spread.size() == 0 ? nullptr : estimate.spread.data();
}

/// Whether every element of a float32 tile matches; then the largest differences are all there is to add.
bool all_match(const MatrixF& got, const Estimate& expected, const CompareOptions& options,
               StageTally& tally) {
    if (options.atol || options.rtol) return false;
    const MatchSummary summary =
        vector_kernels().match({got.data(), std::size_t(got.size())}, expected.value.data(),
                               expected.error.data(), spread_of(expected), tally.budget_used);
    if (!summary.matches || !summary.tells) return false;
    tally.max_abs = std::max(tally.max_abs, summary.max_abs);
    tally.max_ulp = std::max(tally.max_ulp, std::uint64_t(summary.max_ulp));
    tally.budget_used = summary.budget_used;
    return true;
}

void merge_first(const std::optional<Element>& part, std::optional<Element>& whole) {
    if (part) keep_first(*part, whole);
}

}  // namespace

Expected expected_of(const Estimate& estimate, Eigen::Index i, const CompareOptions& options) {
    const double error = estimate.error.data()[i];
    Expected expected{estimate.value.data()[i], error, error == 0};
    if (options.atol || options.rtol)
        expected.tolerance = options.atol.value_or(0) + options.rtol.value_or(0) * std::abs(expected.value);
    const double spread = estimate.spread.size() == 0 ? infinity : estimate.spread.data()[i];
    expected.tells = std::isinf(expected.value) || tells(expected.tolerance, spread);
    return expected;
}

bool tells_everywhere(const Estimate& estimate, const CompareOptions& options) {
    const Eigen::Index size = estimate.value.size();
    if (!options.atol && !options.rtol)
        return vector_kernels().tells({estimate.error.data(), std::size_t(size)}, spread_of(estimate));
    for (Eigen::Index i = 0; i < size; ++i) {
        if (!expected_of(estimate, i, options).tells) return false;
    }
    return true;
}

bool is_masked(const TileContext& context, double expected) {
    return expected == -infinity || float(expected) == float(context.masked_score);
}

Finding judge_element(const TileContext& context, Eigen::Index row, float got, const Expected& expected) {
    const bool expects_unwritten = context.expects_nan && is_unwritten(float(expected.value));
    // Nobody reads a hidden score; an output is read whatever its row sees.
    const bool is_hidden = is_masked(context, expected.value) && !is_output(context.stage);
    if (is_unwritten(got) && (is_hidden || expects_unwritten)) return Finding::indifferent;
    const bool is_left_out = !context.sees.empty() && !context.sees[std::size_t(row)];
    if (is_unwritten(got) && is_left_out && !context.expects_nan) return Finding::indifferent;
    if (is_unwritten(got) || expects_unwritten)
        return context.may_be_unwritten ? Finding::indifferent : Finding::unwritten;
    if (std::isnan(expected.value)) {
        if (!context.expects_nan && !expected.certain) return Finding::indifferent;
        return std::isnan(got) ? Finding::match : Finding::nan;
    }
    if (std::isnan(got)) return Finding::nan;
    const Finding agrees = expected.tells ? Finding::match : Finding::not_judged;
    if (double(got) == expected.value) return agrees;
    const bool starts = context.stage == Stage::m && expected.value == -infinity;
    if (starts && got == float(context.m_start)) return agrees;
    if (std::isinf(got) || std::isinf(expected.value)) {
        return overflows_alike(context.dtype, got, expected.value, expected.tolerance) ? agrees
                                                                                       : Finding::infinite;
    }
    return std::abs(double(got) - expected.value) <= expected.tolerance ? agrees : Finding::outside;
}

bool is_inherited(const TileContext& context, float got, Finding finding, const Estimate& end_to_end,
                  Eigen::Index i, const CompareOptions& options) {
    if (is_divergence(finding) || is_unwritten(got)) return false;
    const Eigen::Index row = i / end_to_end.value.cols();
    return is_divergence(judge_element(context, row, got, expected_of(end_to_end, i, options)));
}

bool is_divergence(Finding finding) {
    return finding > Finding::not_judged;
}

TileContext tile_context(const Problem& problem, Stage stage, const TileId& tile) {
    const StageInfo info = stage_info(problem, stage);
    const auto begin = [&](Axis axis) {
        return axis == Axis::query ? tile.q_block * problem.block_m
               : axis == Axis::key ? tile.kv_tile * problem.block_n
                                   : 0;
    };
    TileContext context;
    context.stage = stage;
    context.tile = tile;
    context.first_row = begin(info.row_axis);
    context.first_col = begin(info.col_axis);
    context.dtype = stage_dtype(problem, stage);
    return context;
}

namespace {

/// Without a branch: every tile is asked, and nearly none has any.
bool has_unwritten(const MatrixF& got) {
    unsigned found = 0;
    for (const float* value = got.data(); value != got.data() + got.size(); ++value)
        found |= unsigned(is_unwritten(*value));
    return found != 0;
}

}  // namespace

TileContext tile_context(const Recording& recording, const Problem& entry, const Units& units, Stage stage,
                         const TileId& tile, const MatrixF& got) {
    TileContext context = tile_context(entry, stage, tile);
    const StageInfo info = stage_info(entry, stage);
    // It is asked for where nobody wrote: a bias is not read for any other tile.
    const bool of_rows = info.per_kv_tile && info.row_axis == Axis::query;
    if (of_rows && has_unwritten(got)) context.sees = rows_that_see(recording, entry, tile);
    if (stage == Stage::m) context.m_start = units.m_start;
    if (stage != Stage::s) return context;
    context.dtype = units.s_cast;
    context.masked_score = masked_score(units);
    return context;
}

std::string_view to_string(Finding finding) {
    constexpr std::array<std::string_view, 8> names = {"match", "indifferent", "not judged", "outside",
                                                       "nan",   "inf",         "unwritten",  "conflicting"};
    return names[static_cast<std::size_t>(finding)];
}

double Element::ratio() const {
    const double difference = std::abs(got - expected);
    if (!std::isfinite(difference) || !(tolerance > 0)) return infinity;
    return difference / tolerance;
}

bool comes_before(const Element& a, const Element& b) {
    const auto key = [](const Element& e) {
        return std::tuple(e.tile.kv_tile, e.tile.batch, e.tile.head, e.row, e.col, e.tile.q_block);
    };
    return key(a) < key(b);
}

void compare_tile(const TileContext& context, const MatrixF& got, const Estimate& expected,
                  const Estimate* end_to_end, const CompareOptions& options, StageTally& tally) {
    ++tally.tiles;
    const bool plain = context.dtype == Dtype::f32;
    const bool clean = plain && all_match(got, expected, options, tally);
    if (clean) {
        tally.compared += got.size();
        narrow_constants(expected, tally);
        if (is_output(context.stage)) add_values(got, expected, tally);
    }
    StageTally unused;
    if (clean && (end_to_end == nullptr || all_match(got, *end_to_end, options, unused))) return;

    for (Eigen::Index row = 0; row < got.rows(); ++row) {
        for (Eigen::Index col = 0; col < got.cols(); ++col) {
            const Eigen::Index i = row * got.cols() + col;
            const Expected here = expected_of(expected, i, options);
            const Element element{judge_element(context, row, got.data()[i], here),
                                  context.tile,
                                  context.first_row + row,
                                  context.first_col + col,
                                  got.data()[i],
                                  here.value,
                                  here.tolerance};
            if (!clean) {
                if (element.finding != Finding::indifferent && element.finding != Finding::not_judged) {
                    ++tally.compared;
                    narrow(here.value, here.tolerance, tally.highest_lower, tally.lowest_upper);
                    if (is_output(context.stage))
                        add_value(got.data()[i], here.value, expected.error.data()[i], tally);
                }
                count_finding(element, options, tally);
                if (is_divergence(element.finding)) count_bad_row(element, tally);
                if (is_unwritten(got.data()[i]) && element.finding == Finding::indifferent) ++tally.unwritten;
                const double difference = std::abs(element.got - element.expected);
                if (std::isfinite(difference)) {
                    if (element.finding == Finding::match && difference > 0)
                        tally.budget_used = std::max(tally.budget_used, element.ratio());
                    tally.max_abs = std::max(tally.max_abs, difference);
                    tally.max_ulp =
                        std::max(tally.max_ulp, ulp_distance(context.dtype, element.got, element.expected));
                }
            }
            if (end_to_end != nullptr)
                tally.inherited +=
                    is_inherited(context, got.data()[i], element.finding, *end_to_end, i, options);
        }
    }
}

void count_saturated(Dtype dtype, const MatrixF& got, const Estimate& expected, StageTally& tally) {
    const float most = dtype_info(dtype).max_finite;
    for (Eigen::Index i = 0; i < got.size(); ++i) {
        if (std::abs(got.data()[i]) != most) continue;
        const double belongs = std::abs(expected.value.data()[i]);
        if (!(belongs > double(most))) continue;
        ++tally.saturated;
        tally.most_saturated = std::max(tally.most_saturated, belongs);
    }
}

void count_missing_tile(const TileContext& context, const TileShape& extent, const CompareOptions& options,
                        StageTally& tally) {
    ++tally.tiles_missing;
    const double nothing = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t row = 0; row < extent.rows; ++row) {
        for (std::int64_t col = 0; col < extent.cols; ++col) {
            const Element element{Finding::unwritten,
                                  context.tile,
                                  context.first_row + row,
                                  context.first_col + col,
                                  nothing,
                                  nothing,
                                  0};
            count_finding(element, options, tally);
            count_bad_row(element, tally);
        }
    }
}

void compact_bad_rows(StageTally& tally) {
    std::sort(tally.bad_rows.begin(), tally.bad_rows.end());
    std::vector<BadRow> rows;
    for (const BadRow& row : tally.bad_rows) {
        const bool same = !rows.empty() && std::tie(rows.back().batch, rows.back().head, rows.back().row) ==
                                               std::tie(row.batch, row.head, row.row);
        if (same) {
            rows.back().elements += row.elements;
        } else {
            rows.push_back(row);
        }
    }
    tally.bad_rows = std::move(rows);
}

void merge(const StageTally& part, const CompareOptions& options, StageTally& whole) {
    whole.tiles += part.tiles;
    whole.tiles_missing += part.tiles_missing;
    whole.compared += part.compared;
    whole.not_judged += part.not_judged;
    whole.outside += part.outside;
    whole.nan += part.nan;
    whole.infinite += part.infinite;
    whole.unwritten += part.unwritten;
    whole.conflicting += part.conflicting;
    whole.saturated += part.saturated;
    whole.most_saturated = std::max(whole.most_saturated, part.most_saturated);
    whole.inherited += part.inherited;
    whole.max_abs = std::max(whole.max_abs, part.max_abs);
    whole.max_ulp = std::max(whole.max_ulp, part.max_ulp);
    whole.budget_used = std::max(whole.budget_used, part.budget_used);
    whole.highest_lower = std::max(whole.highest_lower, part.highest_lower);
    whole.lowest_upper = std::min(whole.lowest_upper, part.lowest_upper);
    whole.least_got = std::min(whole.least_got, part.least_got);
    whole.most_got = std::max(whole.most_got, part.most_got);
    whole.highest_half_lower = std::max(whole.highest_half_lower, part.highest_half_lower);
    whole.lowest_half_upper = std::min(whole.lowest_half_upper, part.lowest_half_upper);
    merge_first(part.first, whole.first);
    merge_first(part.first_nan, whole.first_nan);
    merge_first(part.first_infinite, whole.first_infinite);
    merge_first(part.first_unwritten, whole.first_unwritten);
    for (const Element& element : part.worst) keep_worst(element, options.top, whole.worst);
    whole.bad_rows.insert(whole.bad_rows.end(), part.bad_rows.begin(), part.bad_rows.end());
}

}  // namespace tilescope
