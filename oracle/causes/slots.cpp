#include "oracle/causes/slots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "dump/schema/rounding.h"
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
bool is_product_finished(const Evidence& evidence) {
    const Problem& problem = evidence.problem();
    const HeadCall& call = evidence.call();
    const bool hides = problem.mask != Mask::none || problem.window_left >= 0 || problem.window_right >= 0;
    return evidence.observed == Stage::s && (hides || call.capped() || call.biased());
}
bool is_acc(const Evidence& evidence) {
    return evidence.observed == Stage::acc;
}

Change adds(Stage stage, const Reader& read) {
    return {.result = [=](const SearchedTile& site, Estimate& sums) {
        Matrix before(sums.value.rows(), sums.value.cols());
        for (Eigen::Index i = 0; i < before.rows(); ++i)
            for (Eigen::Index j = 0; j < before.cols(); ++j) before(i, j) = carried_over(stage, site, i, j);
        sums.value -= before;
        sums = read(site, sums);
        sums.value += before;
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

/// The array that is read, if it is another one. Of a row without a maximum nothing is subtracted.
Estimate read_array(const Slot& slot, const SearchedTile& site) {
    Estimate array = evaluated(*slot.array, site, site.rows(), 1);
    array.value = array.value.unaryExpr([](double x) { return std::isinf(x) ? 0 : x; });
    array.error = 8 * u_f32 * array.value.cwiseAbs();
    return array;
}

// ---- the factor that the running state is rescaled by

bool is_rescaled(const Evidence& evidence) {
    return evidence.observed == Stage::l || evidence.observed == Stage::acc;
}

// ---- the table

Slot of_result(SlotCause cause, bool (*is_of)(const Evidence&), const char* parameter,
               SlotNumbers (*numbers)(const Observation&), Change (*in_result)(Stage, const Reader&)) {
    return {.cause = cause,
            .is_of = is_of,
            .parameter = parameter,
            .name = "",
            .numbers = numbers,
            .in_result = in_result};
}

Slot of_input(SlotCause cause, bool (*is_of)(const Evidence&), const char* parameter, const char* name,
              Variable variable, bool of_rows = false, bool is_exponent = false) {
    return {.cause = cause,
            .is_of = is_of,
            .parameter = parameter,
            .name = name,
            .variable = variable,
            .of_rows = of_rows,
            .is_exponent = is_exponent};
}

Slot of_maximum(const char* name, const Expr& array, bool only_there = false) {
    Slot slot = of_input(SlotCause::maximum, is_forward_p, "subtracts", name, var::m, true, true);
    slot.array = array;
    slot.only_there = only_there;
    return slot;
}

Slot of_scores() {
    Slot slot = of_input(SlotCause::moved, is_product_finished, "adds", "", var::scaled);
    slot.numbers = scores_before_cap;
    return slot;
}

const Slot delta = of_input(SlotCause::numbers, is_ds, "takes", "delta", var::delta, true);
const Slot lse = of_input(SlotCause::numbers, is_backward_p, "takes", "lse", var::m, true, true);
const std::array rows_of_heads = {delta, lse};

const std::array slots = {
    of_result(SlotCause::moved, is_any, "holds", held, holds),
    of_scores(),
    of_result(SlotCause::moved, is_acc, "adds", product_results, adds),
    of_input(SlotCause::scores, is_p, "reads", "", var::s, false, true),
    of_input(SlotCause::numbers, is_ds, "takes", "p", var::p),
    of_input(SlotCause::numbers, is_ds, "takes", "dp", var::dp),
    delta,
    lse,
    of_input(SlotCause::factor, is_rescaled, "reads", "factor", var::factor, true),
    of_maximum("m", var::m),
    of_maximum("m_before", var::m_before),
    of_maximum("m_tile", var::m_tile),
    of_maximum("m + m_before", var::m + var::m_before, true),
    of_maximum("m - m_before", var::m - var::m_before, true),
    of_maximum("-m", -1 * var::m, true),
};

// ---- what the slot held

/// By how much the result is more where the variable is more by `step`: the result, or its logarithm.
Matrix slopes(Variable variable, bool is_exponent, const Observation& seen, const Matrix& step) {
    const auto of_stage = [&](Estimate numbers) {
        SearchedTile site = seen.site;
        site.own_call().bounds = false;
        put(variable, std::move(numbers), site);
        const Matrix result = expected_of(seen.context.stage, site).value;
        return is_exponent ? Matrix(result.array().log()) : result;
    };
    Estimate numbers = numbers_of(variable, seen.site);
    const Matrix right = of_stage(numbers);
    numbers.value += step;
    const Matrix rise = of_stage(std::move(numbers)) - right;
    return rise.cwiseQuotient(step.cols() == rise.cols() ? step : step.replicate(1, rise.cols()));
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
    Estimate own = numbers_of(slot.variable, site);
    const Estimate read = read_from(slot.array ? read_array(slot, site) : own, site, ld, at);
    // What is not known stays as it is.
    for (Eigen::Index i = 0; i < own.value.size(); ++i) {
        if (std::isinf(read.error.data()[i])) continue;
        own.value.data()[i] = read.value.data()[i];
        own.error.data()[i] = read.error.data()[i];
    }
    put(slot.variable, std::move(own), site);
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

std::span<const Slot> all_slots() {
    return slots;
}

std::span<const Slot> slots_of_heads() {
    return rows_of_heads;
}

std::int64_t columns_of(const Slot& slot, const Problem& problem, Stage stage) {
    return slot.of_rows ? 1 : tile_shape(problem, stage).cols;
}

SlotNumbers solve_for(Variable variable, bool is_exponent, const Observation& seen) {
    const Matrix own = numbers_of(variable, seen.site).value;
    const Matrix step = own.unaryExpr(
        [](double x) { return std::isfinite(x) ? std::max(1.0, std::abs(x)) / 4096 : quiet_nan; });
    const Matrix slope = slopes(variable, is_exponent, seen, step);
    return numbers_by(seen, own, [&](Eigen::Index i, Eigen::Index j) {
        const double got = seen.natural(i, j);
        const double unit = seen.factor.at(i, j);
        const double expected = seen.expected.value(i, j) / unit;
        double error = 2 * seen.expected.error(i, j) / std::abs(unit) + 4 * u_f32 * std::abs(got);
        double rise = got - expected;
        if (is_exponent) {
            rise = std::log(got) - std::log(expected);
            error /= std::abs(got);
        }
        const double x = own(i, own.cols() > 1 ? j : 0);
        return std::pair(x + rise / slope(i, j), error / std::abs(slope(i, j)) + 4 * u_f32 * std::abs(x));
    });
}

SlotNumbers numbers_of(const Slot& slot, const Observation& seen) {
    SlotNumbers numbers =
        slot.numbers ? slot.numbers(seen) : solve_for(slot.variable, slot.is_exponent, seen);
    if (slot.array) numbers.right = read_array(slot, seen.site).value;
    return numbers;
}

Change reads_slot(const Slot& slot, Stage stage, const ReadAt& at) {
    const auto ld = [=, &slot](const SearchedTile& site) {
        return columns_of(slot, site.call->problem, stage);
    };
    if (slot.variable != var::result)
        return {.inputs = [=, &slot](SearchedTile& site) { read_input(slot, ld(site), at, site); },
                .result = [=](const SearchedTile& site,
                              Estimate& result) { leave_open(ld(site), at, site, result); }};
    return slot.in_result(stage, [=](const SearchedTile& site, const Estimate& right) {
        return read_from(right, site, ld(site), at);
    });
}

}  // namespace tilescope
