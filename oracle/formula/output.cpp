#include "oracle/formula/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"

namespace tilescope {

double empty_value(EmptyRow empty) {
    switch (empty) {
        case EmptyRow::zero:
            return 0;
        case EmptyRow::minus_infinity:
            return -inf;
        case EmptyRow::plus_infinity:
            return inf;
        case EmptyRow::nan:
            return std::numeric_limits<double>::quiet_NaN();
    }
    return 0;
}

namespace {

/// Joins a sink that comes last.
RunningState with_sink(const HeadCall& call, const RunningState& state) {
    RunningState joined = state;
    const double roundings = gamma(3, u_f32);
    for (Eigen::Index i = 0; i < state.m.value.rows(); ++i) {
        const double m = state.m.value(i, 0);
        const double most = std::max(m, call.sink);
        if (std::isnan(m)) continue;
        const double old_factor = m == -inf ? 0 : std::exp(m - most);
        const double sink_term = std::exp(call.sink - most);
        const ExpFunctionBound function = exp_function_bound(call.units);
        const ExpArgumentBound argument = exp_argument_bound(call);
        const auto error_of = [&](double x) {
            return (argument.difference * std::abs(x - most) +
                    argument.terms * (std::abs(x) + std::abs(most))) +
                   function.constant + function.per_argument * std::abs(x - most) + roundings;
        };
        const double old_error = m == -inf ? 0 : error_of(m) + state.m.error(i, 0);
        joined.m.value(i, 0) = most;
        joined.m.error(i, 0) = m == most ? state.m.error(i, 0) : 0;
        const double l = state.l.value(i, 0) * old_factor;
        joined.l.value(i, 0) = l + sink_term;
        joined.l.error(i, 0) = state.l.error(i, 0) * old_factor + l * old_error +
                               sink_term * (error_of(call.sink) + (m == most ? state.m.error(i, 0) : 0)) +
                               joined.l.value(i, 0) * u_f32;
        joined.acc.value.row(i) *= old_factor;
        joined.acc.error.row(i) *= old_factor;
        joined.acc.error.row(i) += joined.acc.value.row(i).cwiseAbs() * old_error;
    }
    return joined;
}

/// What acc and l of a row are off by makes of their quotient.
double inherited_by_output(const HeadCall& call, const RunningState& whole, Eigen::Index row,
                           Eigen::Index col) {
    const double sum = whole.l.value(row, 0);
    // An acc that is kept over l is o already, whatever l is; splits are weighted by theirs.
    const bool is_o = call.units.acc_normalised && !call.problem.is_split();
    const double sum_error = is_o ? 0 : whole.l.error(row, 0);
    const double least = sum - sum_error;
    const double value = whole.acc.value(row, col) / sum;
    return least > 0 ? (whole.acc.error(row, col) + std::abs(value) * sum_error) / least : inf;
}

/// The quotient's own roundings and its store, after what it inherits.
template <class Error>
Bounded<Error> output_element(const HeadCall& call, double value, Error inherited) {
    // A division of 2 ulp, or a reciprocal of 1 ulp and its product with acc; the scales and descale_v.
    const bool scaled = call.units.l_scale != call.units.acc_scale || !call.units.acc_dequantised;
    const double count = scaled ? 8 : 4;
    const double magnitude = std::abs(value);
    Bounded<Error> o{value, std::move(inherited)};
    o.error.add((gamma(count, u_f32) + u_oracle) * magnitude, [&](BudgetTerms& terms) {
        terms.add("acc / l", roundings(magnitude > 0 ? count : 0, magnitude), gamma(count, u_f32) * magnitude,
                  "CUDA guide, math");
        terms.add_own_error(u_oracle * magnitude);
    });
    o.error.add_flush_to_zero(flush_to_zero);
    const Dtype dtype = call.problem.dtype_o;
    const double stored = magnitude + o.error.total();
    o.error.add(cast_bound(dtype, stored),
                [&] { return rounding_to(dtype, "store to", stored, half_quantum(dtype)); });
    return o;
}

bool sink_joins_lse(const HeadCall& call) {
    return call.problem.sink == AttentionSink::last && call.units.lse_includes_sink;
}

double inherited_by_lse(const RunningState& whole, Eigen::Index row) {
    const double least = whole.l.value(row, 0) - whole.l.error(row, 0);
    return least > 0 ? whole.m.error(row, 0) + whole.l.error(row, 0) / least : inf;
}

/// `before`: the state before a sink has joined.
template <class Error>
Bounded<Error> lse_element(const HeadCall& call, const RunningState& before, const RunningState& whole,
                           Eigen::Index row, Error inherited) {
    const double m = whole.m.value(row, 0);
    const double log_sum = std::log(whole.l.value(row, 0));
    // Three roundings to convert m or the sum of both (log2(e) or ln 2, its product with sm_scale, and the
    // product with that), and the addition; a scale of l is taken off as a logarithm.
    const double log_scale = std::abs(std::log(call.units.l_scale));
    // A sink may join a logarithm that is there already.
    const double own_l = std::max(before.l.value(row, 0), 1e-300);
    const bool joined = sink_joins_lse(call) && std::isfinite(before.m.value(row, 0));
    const double own = joined ? std::abs(before.m.value(row, 0)) + std::abs(std::log(own_l)) : 0;
    const double log_magnitude = std::abs(log_sum) + log_scale;
    const double magnitude = std::abs(m) + std::abs(log_sum) + log_scale + own;
    const double logarithm = log_function_bound(log_magnitude);
    const double count = has_rest_of_scale(call) ? 6 : 5;
    const double adding = gamma(count, u_f32) * magnitude;
    Bounded<Error> lse{m + log_sum, std::move(inherited)};
    lse.error.add(logarithm + adding, [&](BudgetTerms& terms) {
        terms.add("logarithm", fmt::format("2^-21.41 + {:.3g} * {:.3g}", 6 * u_f32, log_magnitude), logarithm,
                  "CUDA guide, math");
        terms.add("adding m and ln l", roundings(count, magnitude), adding, "Higham, lemma 3.1");
    });
    lse.error.add_own_error(u_oracle * std::abs(lse.value));
    return lse;
}

/// What a split's o is off by as it is stored before the splits are merged, times its l.
double partial_rounding(const HeadCall& call, double acc, double acc_error, double l) {
    const Dtype dtype = call.problem.dtype_partial_o;
    if (dtype == Dtype::f32) return 0;
    // Stored without the descale, a number below its type's range loses more of o.
    const double unit =
        call.units.acc_dequantised ? 1 : product_unit(call, Stage::acc) * call.units.acc_scale;
    return unit_roundoff(dtype) * (std::abs(acc) + acc_error) + half_quantum(dtype) * unit * std::abs(l);
}

RunningState joined(const HeadCall& call, const RunningState& state, bool joins) {
    return joins ? with_sink(call, state) : state;
}

Estimate row_of(const Estimate& estimate, Eigen::Index row) {
    return {estimate.value.row(row), estimate.error.row(row)};
}

using Splits = std::vector<RunningState>;

/// One row of each split, and one column of its acc.
Splits element_of(std::span<const RunningState> splits, Eigen::Index row, Eigen::Index col) {
    Splits rows;
    for (const RunningState& split : splits) {
        rows.push_back({row_of(split.m, row),
                        row_of(split.l, row),
                        {split.acc.value.block(row, col, 1, 1), split.acc.error.block(row, col, 1, 1)}});
    }
    return rows;
}

/// Takes what an element inherits from the splits apart: one statistic after the other is taken as exact,
/// then what combining them adds; the rest comes with the sink. `inherited` is of the state of all of them.
BudgetTerms terms_of_splits(const HeadCall& call, Splits splits, const char* of_sink,
                            const std::function<double(const RunningState& whole)>& inherited) {
    struct Statistic {
        const char* name;
        const char* source;
        Estimate RunningState::*member;
    };
    constexpr Statistic statistics[] = {{"acc, not dumped", "from acc", &RunningState::acc},
                                        {"l, not dumped", "from l", &RunningState::l},
                                        {"m, not dumped", "from m", &RunningState::m}};
    BudgetTerms terms;
    double with = inherited(whole_state(call, splits));
    if (!std::isfinite(with)) {
        terms.add("l may be 0", "its error is at least l", with, "from l");
        return terms;
    }
    for (const auto& [name, source, member] : statistics) {
        double largest = 0;
        for (RunningState& split : splits) {
            largest = std::max(largest, (split.*member).error.maxCoeff());
            (split.*member).error.setZero();
        }
        const double without = inherited(whole_state(call, splits));
        terms.add(name, fmt::format("error up to {:.3g}, over l", largest), part_of(with, without), source);
        with = without;
    }
    RunningState whole = whole_state(call, splits);
    for (Estimate* estimate : {&whole.m, &whole.l, &whole.acc}) estimate->error.setZero();
    const double exact = inherited(whole);
    const bool several = call.problem.is_split();
    if (several && call.problem.dtype_partial_o != Dtype::f32) {
        HeadCall unrounded = call;
        unrounded.problem.dtype_partial_o = Dtype::f32;
        const double without = inherited(whole_state(unrounded, splits));
        const std::string type(dtype_info(call.problem.dtype_partial_o).name);
        terms.add("partial o to " + type, "each split's o, weighted", part_of(with, without), "IEEE 754");
        with = without;
    }
    terms.add(several ? "joining the splits" : "adding the lanes of l",
              several ? fmt::format("lse, exponential and sum of {} splits", splits.size())
                      : fmt::format("{} roundings of l", call.problem.l_lanes),
              part_of(with, exact), several ? "CUDA guide, Higham 3.1" : "Higham, lemma 3.1");
    terms.add("sink", of_sink, exact, "CUDA guide, math");
    return terms;
}

}  // namespace

RunningState initial_state(const HeadCall& call, std::int64_t rows, bool first_split) {
    RunningState state{zeros(rows, 1), zeros(rows, call.problem.l_lanes),
                       zeros(rows, call.problem.head_dim_v)};
    state.m.value.setConstant(-inf);
    if (call.problem.sink != AttentionSink::first || !first_split) return state;
    state.m.value.setConstant(call.sink);
    // The sink in the units of m: a product with log2(e), or a division by the scale.
    state.m.error.setConstant(gamma(3, u_f32) * std::abs(call.sink));
    state.l.value.setConstant(1);
    return state;
}

RunningState combine(const HeadCall& call, std::span<const RunningState> splits) {
    const Eigen::Index rows = splits.front().m.value.rows();
    RunningState whole = initial_state(call, rows, false);
    whole.l = zeros(rows, 1);
    // A row that sees one split alone goes through the combine step as well.
    const bool is_split = call.problem.is_split();
    const double count = double(splits.size());
    for (Eigen::Index i = 0; i < rows; ++i) {
        double most = -inf;
        for (const RunningState& split : splits) {
            if (!(split.m.value(i, 0) <= most)) most = split.m.value(i, 0);
        }
        whole.m.value(i, 0) = most;
        for (const RunningState& split : splits) {
            const double m = split.m.value(i, 0);
            // A maximum that passes NaN over is -inf where all scores are NaN, and l is not: it sees keys.
            const bool sees_nothing = m == -inf && !std::isnan(sum_of_row(split.l.value, i));
            if (sees_nothing && !std::isnan(most)) continue;
            if (m == most) whole.m.error(i, 0) = std::max(whole.m.error(i, 0), split.m.error(i, 0));
            const double factor = std::exp(m - most);
            double relative = gamma(double(call.problem.l_lanes), u_f32);
            if (is_split) {
                // lse of the split, its difference to that of the whole, its exponential, and the weighted
                // sum.
                const double lse =
                    std::abs(m) + std::abs(std::log(std::max(sum_of_row(split.l.value, i), 1e-300)));
                relative += log_function_bound(lse) + gamma(6, u_f32) * (lse + std::abs(most)) +
                            exp_function_bound(call.units).constant + gamma(count + 6, u_f32) +
                            split.m.error(i, 0);
            }
            whole.l.value(i, 0) += factor * sum_of_row(split.l.value, i);
            whole.l.error(i, 0) +=
                factor * (sum_of_row(split.l.error, i) + relative * std::abs(sum_of_row(split.l.value, i)));
            whole.acc.value.row(i) += factor * split.acc.value.row(i);
            whole.acc.error.row(i) +=
                factor *
                (split.acc.error.row(i) + (is_split ? relative : 0.0) * split.acc.value.row(i).cwiseAbs());
            if (!is_split || call.problem.dtype_partial_o == Dtype::f32) continue;
            for (Eigen::Index j = 0; j < whole.acc.error.cols(); ++j)
                whole.acc.error(i, j) +=
                    factor * partial_rounding(call, split.acc.value(i, j), split.acc.error(i, j),
                                              sum_of_row(split.l.value, i));
        }
    }
    return whole;
}

RunningState whole_state(const HeadCall& call, std::span<const RunningState> splits) {
    const bool is_whole = !call.problem.is_split() && call.problem.l_lanes == 1;
    return is_whole ? splits.back() : combine(call, splits);
}

Estimate output(const HeadCall& call, const RunningState& state) {
    const RunningState whole = joined(call, state, call.problem.sink == AttentionSink::last);
    Estimate o = zeros(whole.acc.value.rows(), whole.acc.value.cols());
    for (Eigen::Index i = 0; i < o.value.rows(); ++i) {
        const double sum = whole.l.value(i, 0);
        if (sum == 0) {
            o.value.row(i).setConstant(empty_value(call.units.o_empty_row));
            continue;
        }
        for (Eigen::Index j = 0; j < o.value.cols(); ++j) {
            const auto element = output_element(call, whole.acc.value(i, j) / sum,
                                                ErrorSum(inherited_by_output(call, whole, i, j)));
            o.value(i, j) = element.value;
            o.error(i, j) = element.error.total();
        }
    }
    return o;
}

Estimate log_sum_exp(const HeadCall& call, const RunningState& state) {
    const RunningState whole = joined(call, state, sink_joins_lse(call));
    Estimate lse = zeros(whole.m.value.rows(), 1);
    for (Eigen::Index i = 0; i < lse.value.rows(); ++i) {
        if (whole.l.value(i, 0) == 0) {
            lse.value(i, 0) = empty_value(call.units.lse_empty_row);
            continue;
        }
        const auto element = lse_element(call, state, whole, i, ErrorSum(inherited_by_lse(whole, i)));
        lse.value(i, 0) = element.value;
        lse.error(i, 0) = element.error.total();
    }
    return lse;
}

BudgetTerms output_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row,
                         Eigen::Index col) {
    // combine() takes as many columns as there are.
    HeadCall narrow = call;
    narrow.problem.head_dim_v = 1;
    const bool joins = call.problem.sink == AttentionSink::last;
    const Splits element = element_of(splits, row, col);
    const RunningState whole = joined(narrow, whole_state(narrow, element), joins);
    if (whole.l.value(0, 0) == 0) return {};
    BudgetTerms inherited = terms_of_splits(
        narrow, element, "its exponential, sum and rescaling",
        [&](const RunningState& of) { return inherited_by_output(narrow, joined(narrow, of, joins), 0, 0); });
    const double value = whole.acc.value(0, 0) / whole.l.value(0, 0);
    if (!std::isfinite(inherited.total())) return inherited;
    return output_element(narrow, value, std::move(inherited)).error;
}

BudgetTerms log_sum_exp_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row) {
    HeadCall narrow = call;
    narrow.problem.head_dim_v = 1;
    const Splits element = element_of(splits, row, 0);
    const RunningState state = whole_state(narrow, element);
    const RunningState whole = joined(narrow, state, sink_joins_lse(call));
    if (whole.l.value(0, 0) == 0) return {};
    BudgetTerms inherited =
        terms_of_splits(narrow, element, "its exponential and sum, over l", [&](const RunningState& of) {
            return inherited_by_lse(joined(narrow, of, sink_joins_lse(call)), 0);
        });
    if (!std::isfinite(inherited.total())) return inherited;
    return lse_element(narrow, state, whole, 0, std::move(inherited)).error;
}

}  // namespace tilescope
