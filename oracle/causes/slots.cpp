#include "oracle/causes/slots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "dump/schema/rounding.h"
#include "oracle/causes/product_results.h"
#include "oracle/causes/tile_sums.h"
#include "oracle/formula/scores.h"

namespace tilescope {

namespace {

template <class Solve>
SlotNumbers numbers_by(const Observation& seen, Matrix right, const Solve& solve) {
    SlotNumbers numbers{std::move(right), Matrix(seen.got.rows(), seen.got.cols()),
                        Matrix(seen.got.rows(), seen.got.cols())};
    for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
        for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
            std::tie(numbers.taken(i, j), numbers.error(i, j)) = solve(i, j);
    return numbers;
}

// ---- what the stage itself holds

bool is_any(const Evidence&) {
    return true;
}

SlotNumbers held(const Observation& seen) {
    // Of a number that was rounded as it was stored, what another one in its place may be off by is its own.
    const Stage stage = seen.context.stage;
    const Dtype stored = is_output(stage) ? stage_dtype(seen.site.call->problem, stage) : Dtype::f32;
    return numbers_by(seen, seen.expected.value, [&](Eigen::Index i, Eigen::Index j) {
        const double got = seen.got(i, j);
        return std::pair(got, seen.expected.error(i, j) + cast_bound(stored, std::abs(got)));
    });
}

Change holds(Stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& estimate) { estimate = read(site, estimate); }};
}

/// Where nothing is done with a product it is what the stage holds.
bool is_added_up(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const HeadCall& call = evidence.call();
    if (evidence.observed != Stage::s) return evidence.observed == Stage::acc;
    const bool hides = problem.mask != Mask::none || problem.window_left >= 0 || problem.window_right >= 0;
    return hides || call.capped() || call.biased();
}

SlotNumbers added(const Observation& seen) {
    const ProductResults products = product_results(seen);
    return {products.expected, products.got, products.error};
}

Change adds(Stage stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& result) {
        Estimate sums = stage == Stage::s ? scaled_scores(*site.call, site.q, site.k) : std::move(result);
        Matrix before(sums.value.rows(), sums.value.cols());
        for (Eigen::Index i = 0; i < before.rows(); ++i)
            for (Eigen::Index j = 0; j < before.cols(); ++j) before(i, j) = carried_over(stage, site, i, j);
        sums.value -= before;
        sums = read(site, sums);
        sums.value += before;
        result = stage == Stage::s
                     ? dumped_from_scaled(*site.call, site.first_row, site.first_key, std::move(sums))
                     : std::move(sums);
    }};
}

// ---- what goes into exponentials, and into ds

bool is_p(const Evidence& evidence) {
    return evidence.observed == Stage::p;
}
bool is_forward_p(const Evidence& evidence) {
    return is_p(evidence) && evidence.problem().direction == Direction::forward;
}
bool is_backward_p(const Evidence& evidence) {
    return is_p(evidence) && evidence.problem().direction == Direction::backward;
}
bool is_ds(const Evidence& evidence) {
    return evidence.observed == Stage::ds;
}

Estimate& scores_in(SearchedTile& site) {
    take_finished_scores(site);
    return site.dumped_s;
}
Estimate& p_in(SearchedTile& site) {
    return site.p;
}
Estimate& dp_in(SearchedTile& site) {
    return site.dp;
}
Estimate& delta_in(SearchedTile& site) {
    return site.delta;
}
Estimate& lse_in(SearchedTile& site) {
    return site.m;
}
/// Another number may leave more above it than a maximum.
Estimate& maximum_in(SearchedTile& site) {
    site.own_call().units.m_stale_threshold = infinity;
    return site.m;
}

/// Of a row without a maximum nothing is subtracted.
Matrix subtracted(const Matrix& m) {
    return m.unaryExpr([](double x) { return std::isinf(x) ? 0 : x; });
}
Matrix maximum(const SearchedTile& site) {
    return subtracted(site.m.value);
}
Matrix maximum_before(const SearchedTile& site) {
    return subtracted(site.before.m.value);
}
Matrix maximum_of_tile(const SearchedTile& site) {
    const Matrix s = finished_scores(site).value;
    return s.cols() > 0 ? subtracted(s.rowwise().maxCoeff()) : Matrix::Zero(s.rows(), 1);
}
Matrix sum_of_maxima(const SearchedTile& site) {
    return subtracted(site.m.value + site.before.m.value);
}
Matrix rise_of_maximum(const SearchedTile& site) {
    return subtracted(site.m.value - site.before.m.value);
}
Matrix negative_maximum(const SearchedTile& site) {
    return subtracted(-site.m.value);
}

// ---- the running state, and the factor that it is rescaled by

/// On top of another mistake a state of another element would fit too easily.
template <Stage stage>
bool is_state(const Evidence& evidence) {
    return evidence.observed == stage && evidence.known.empty();
}

bool is_rescaled(const Evidence& evidence) {
    return evidence.observed == Stage::l || evidence.observed == Stage::acc;
}

Estimate& m_before_in(SearchedTile& site) {
    return site.before.m;
}
Estimate& l_before_in(SearchedTile& site) {
    return site.before.l;
}
Estimate& acc_before_in(SearchedTile& site) {
    return site.before.acc;
}
Estimate& factor_in(SearchedTile& site) {
    return site.factor;
}

/// Known where it is larger than the tile's own maximum: otherwise that hides it.
SlotNumbers maxima_before(const Observation& seen) {
    const Matrix s = finished_scores(seen.site).value;
    return numbers_by(seen, seen.site.before.m.value, [&](Eigen::Index i, Eigen::Index) {
        const double got = seen.natural(i, 0);
        const double error = 8 * u_f32 * std::abs(got);
        const double own = s.cols() > 0 ? s.row(i).maxCoeff() : -infinity;
        return std::pair(got > own + 2 * error ? got : quiet_nan, error);
    });
}

// ---- the table

constexpr Slot of_result(SlotCause cause, bool (*is_of)(const Evidence&), const char* parameter,
                         SlotNumbers (*numbers)(const Observation&),
                         Change (*in_result)(Stage, const Reader&)) {
    return {.cause = cause,
            .is_of = is_of,
            .parameter = parameter,
            .name = "",
            .numbers = numbers,
            .in_result = in_result};
}

constexpr Slot of_input(SlotCause cause, bool (*is_of)(const Evidence&), const char* parameter,
                        const char* name, Estimate& (*in)(SearchedTile&), bool of_rows = false,
                        bool is_exponent = false) {
    return {.cause = cause,
            .is_of = is_of,
            .parameter = parameter,
            .name = name,
            .in = in,
            .of_rows = of_rows,
            .is_exponent = is_exponent};
}

constexpr Slot of_maximum(const char* name, Matrix (*array)(const SearchedTile&), bool only_there = false) {
    Slot slot = of_input(SlotCause::maximum, is_forward_p, "subtracts", name, maximum_in, true, true);
    slot.array = array;
    slot.only_there = only_there;
    return slot;
}

constexpr Slot of_maximum_before() {
    Slot slot = of_input(SlotCause::state, is_state<Stage::m>, "state of", "m", m_before_in, true);
    slot.numbers = maxima_before;
    return slot;
}

constexpr Slot delta = of_input(SlotCause::numbers, is_ds, "takes", "delta", delta_in, true);
constexpr Slot lse = of_input(SlotCause::numbers, is_backward_p, "takes", "lse", lse_in, true, true);
constexpr std::array rows_of_heads = {delta, lse};

constexpr std::array slots = {
    of_result(SlotCause::moved, is_any, "holds", held, holds),
    of_result(SlotCause::moved, is_added_up, "adds", added, adds),
    of_input(SlotCause::scores, is_p, "reads", "", scores_in, false, true),
    of_input(SlotCause::numbers, is_ds, "takes", "p", p_in),
    of_input(SlotCause::numbers, is_ds, "takes", "dp", dp_in),
    delta,
    lse,
    of_maximum_before(),
    of_input(SlotCause::state, is_state<Stage::l>, "state of", "l", l_before_in),
    of_input(SlotCause::state, is_state<Stage::acc>, "state of", "acc", acc_before_in),
    of_input(SlotCause::factor, is_rescaled, "reads", "factor", factor_in, true),
    of_maximum("m", maximum),
    of_maximum("m_before", maximum_before),
    of_maximum("m_tile", maximum_of_tile),
    of_maximum("m + m_before", sum_of_maxima, true),
    of_maximum("m - m_before", rise_of_maximum, true),
    of_maximum("-m", negative_maximum, true),
};

// ---- what the slot held

/// By how much the result is more where the slot's number is more by `step`: the result, or its logarithm.
Matrix slopes(const Slot& slot, const Observation& seen, const Matrix& step) {
    const auto of_stage = [&](SearchedTile& site) {
        site.own_call().bounds = false;
        const Matrix result = expected_of(seen.context.stage, site).value;
        return slot.is_exponent ? Matrix(result.array().log()) : result;
    };
    SearchedTile right = seen.site;
    SearchedTile more = seen.site;
    slot.in(right);
    slot.in(more).value += step;
    const Matrix rise = of_stage(more) - of_stage(right);
    return rise.cwiseQuotient(step.cols() == rise.cols() ? step : step.replicate(1, rise.cols()));
}

SlotNumbers solved(const Slot& slot, const Observation& seen) {
    SearchedTile site = seen.site;
    const Matrix own = slot.in(site).value;
    const Matrix step = own.unaryExpr(
        [](double x) { return std::isfinite(x) ? std::max(1.0, std::abs(x)) / 4096 : quiet_nan; });
    const Matrix slope = slopes(slot, seen, step);
    return numbers_by(seen, slot.array ? slot.array(seen.site) : own, [&](Eigen::Index i, Eigen::Index j) {
        const double got = seen.natural(i, j);
        const double unit = seen.factor.at(i, j);
        const double expected = seen.expected.value(i, j) / unit;
        double error = 2 * seen.expected.error(i, j) / std::abs(unit) + 4 * u_f32 * std::abs(got);
        double rise = got - expected;
        if (slot.is_exponent) {
            rise = std::log(got) - std::log(expected);
            error /= std::abs(got);
        }
        const double x = own(i, own.cols() > 1 ? j : 0);
        return std::pair(x + rise / slope(i, j), error / std::abs(slope(i, j)) + 4 * u_f32 * std::abs(x));
    });
}

// ---- a kernel that reads it elsewhere

struct ReadNumber {
    Eigen::Index row;
    Eigen::Index col;
};

/// The number that an element reads, of so many; nullopt: it is not known.
std::optional<ReadNumber> number_at(const std::optional<std::int64_t>& address, std::int64_t ld,
                                    Eigen::Index rows, Eigen::Index cols) {
    if (!address || *address < 0 || *address / ld >= rows || *address % ld >= cols) return std::nullopt;
    return ReadNumber{*address / ld, *address % ld};
}

/// A tile's numbers as they are read.
Estimate read_from(const Estimate& right, const SearchedTile& site, std::int64_t ld, const ReadAt& at) {
    Estimate read = right;
    for (Eigen::Index i = 0; i < right.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < right.value.cols(); ++j) {
            const auto from = number_at(at(site, i, j), ld, right.value.rows(), right.value.cols());
            if (from) read.value(i, j) = right.value(from->row, from->col);
            read.error(i, j) = from ? right.error(from->row, from->col) : infinity;
        }
    }
    return read;
}

void read_input(const Slot& slot, std::int64_t ld, const ReadAt& at, SearchedTile& site) {
    std::optional<Estimate> other;
    if (slot.array) {
        other = Estimate{slot.array(site), {}};
        other->error = 8 * u_f32 * other->value.cwiseAbs();
    }
    Estimate& own = slot.in(site);
    const Estimate read = read_from(other ? *other : own, site, ld, at);
    // What is not known stays as it is.
    for (Eigen::Index i = 0; i < own.value.size(); ++i) {
        if (std::isinf(read.error.data()[i])) continue;
        own.value.data()[i] = read.value.data()[i];
        own.error.data()[i] = read.error.data()[i];
    }
}

/// What is computed of numbers that are not known is open.
void leave_open(std::int64_t ld, const ReadAt& at, const SearchedTile& site, Estimate& result) {
    const Eigen::Index cols = ld == 1 ? 1 : result.value.cols();
    for (Eigen::Index i = 0; i < result.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            if (number_at(at(site, i, j), ld, result.value.rows(), cols)) continue;
            if (ld > 1)
                result.error(i, j) = infinity;
            else
                result.error.row(i).setConstant(infinity);
        }
    }
}

}  // namespace

bool SlotNumbers::is_known(Eigen::Index row, Eigen::Index col) const {
    return std::isfinite(taken(row, col)) && std::isfinite(error(row, col));
}

std::span<const Slot> all_slots() {
    return slots;
}

std::span<const Slot> slots_of_heads() {
    return rows_of_heads;
}

std::int64_t columns_of(const Slot& slot, const Problem& problem, Stage stage) {
    return slot.of_rows ? 1 : tile_shape(problem, stage).cols;
}

SlotNumbers numbers_of(const Slot& slot, const Observation& seen) {
    return slot.numbers ? slot.numbers(seen) : solved(slot, seen);
}

Change reads_slot(const Slot& slot, Stage stage, const ReadAt& at) {
    const auto ld = [=, &slot](const SearchedTile& site) {
        return columns_of(slot, site.call->problem, stage);
    };
    if (slot.in)
        return {.inputs = [=, &slot](SearchedTile& site) { read_input(slot, ld(site), at, site); },
                .result = [=](const SearchedTile& site,
                              Estimate& result) { leave_open(ld(site), at, site, result); }};
    return slot.in_result(stage, [=](const SearchedTile& site, const Estimate& right) {
        return read_from(right, site, ld(site), at);
    });
}

}  // namespace tilescope
