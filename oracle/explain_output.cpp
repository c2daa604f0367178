// The terms of o and lse.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "oracle/budget.h"
#include "oracle/explain_terms.h"
#include "oracle/replay.h"

namespace tilescope {

namespace {

Estimate row_of(const Estimate& estimate, Eigen::Index row) {
    return {estimate.value.row(row), estimate.error.row(row)};
}

using Splits = std::vector<RunningState>;
/// The bound of the explained element, from a state of one row.
using BoundOf = std::function<double(const HeadCall& call, const RunningState& whole)>;

/// What the states of the splits bring along, one statistic after the other taken as exact, then what
/// combining them adds. Leaves them exact; returns the state without any error.
RunningState add_inherited_terms(const HeadCall& call, Splits splits, const BoundOf& bound,
                                 BudgetTerms& terms) {
    struct Statistic {
        const char* name;
        const char* source;
        Estimate RunningState::*member;
    };
    constexpr Statistic statistics[] = {{"acc, not dumped", "from acc", &RunningState::acc},
                                        {"l, not dumped", "from l", &RunningState::l},
                                        {"m, not dumped", "from m", &RunningState::m}};
    double with = bound(call, whole_state(call, splits));
    for (const auto& [name, source, member] : statistics) {
        double largest = 0;
        for (RunningState& split : splits) {
            largest = std::max(largest, (split.*member).error.maxCoeff());
            (split.*member).error.setZero();
        }
        const double without = bound(call, whole_state(call, splits));
        terms.add(name, fmt::format("error up to {:.3g}, over l", largest), part_of(with, without), source);
        with = without;
    }
    RunningState whole = whole_state(call, splits);
    for (Estimate* estimate : {&whole.m, &whole.l, &whole.acc}) estimate->error.setZero();
    const bool several = call.problem.kv_tiles_per_split > 0;
    terms.add(several ? "joining the splits" : "adding the lanes of l",
              several ? fmt::format("lse, exponential and sum of {} splits", splits.size())
                      : fmt::format("{} roundings of l", call.problem.l_lanes),
              part_of(with, bound(call, whole)), several ? "CUDA guide, Higham 3.1" : "Higham, lemma 3.1");
    return whole;
}

Splits rows_of(std::span<const RunningState> splits, Eigen::Index row, Eigen::Index col) {
    Splits rows;
    for (const RunningState& split : splits) {
        rows.push_back({row_of(split.m, row),
                        row_of(split.l, row),
                        {split.acc.value.block(row, col, 1, 1), split.acc.error.block(row, col, 1, 1)}});
    }
    return rows;
}

/// Where l may be 0, nothing is known of what is divided by it.
bool is_unknown(double bound, BudgetTerms& terms) {
    if (std::isfinite(bound)) return false;
    terms.add("l may be 0", "its error is at least l", bound, "from l");
    return true;
}

}  // namespace

BudgetTerms output_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row,
                         Eigen::Index col) {
    // One column alone: combine() and output() take as many as there are.
    HeadCall unrounded = call;
    unrounded.problem.head_dim_v = 1;
    unrounded.problem.dtype_o = Dtype::f32;
    const BoundOf bound = [](const HeadCall& of, const RunningState& state) {
        return output(of, state).error(0, 0);
    };
    const Splits rows = rows_of(splits, row, col);
    const RunningState inexact = whole_state(unrounded, rows);
    const double all = bound(unrounded, inexact);
    BudgetTerms terms;
    if (all == 0 || is_unknown(all, terms)) return terms;
    const double o = std::abs(output(unrounded, inexact).value(0, 0));
    const RunningState exact = add_inherited_terms(unrounded, rows, bound, terms);

    HeadCall without_sink = unrounded;
    without_sink.problem.sink = AttentionSink::none;
    RunningState quotient = exact;
    quotient.l.value.setOnes();
    quotient.acc.value.setConstant(o);
    const double plain = bound(without_sink, quotient);
    terms.add("sink", "its exponential, sum and rescaling", part_of(bound(unrounded, exact), plain),
              "CUDA guide, math");
    const double own = u_oracle * o;
    const double division = part_of(plain, own + flush_to_zero);
    terms.add("acc / l", roundings(o > 0 ? rounding_count(division / o) : 0, o), division,
              "CUDA guide, math");
    terms.add_own_error(own);
    terms.add_flush_to_zero(flush_to_zero);
    const Dtype dtype = call.problem.dtype_o;
    terms.add(fmt::format("store to {}", dtype_info(dtype).name),
              dtype == Dtype::f32 ? ""
                                  : fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(dtype), o + all,
                                                half_quantum(dtype)),
              cast_bound(dtype, o + all), "IEEE 754");
    return terms;
}

BudgetTerms log_sum_exp_terms(const HeadCall& call, std::span<const RunningState> splits, Eigen::Index row) {
    HeadCall narrow = call;
    narrow.problem.head_dim_v = 1;
    const BoundOf bound = [](const HeadCall& of, const RunningState& state) {
        return log_sum_exp(of, state).error(0, 0);
    };
    const Splits rows = rows_of(splits, row, 0);
    const RunningState inexact = whole_state(narrow, rows);
    const double all = bound(narrow, inexact);
    BudgetTerms terms;
    if (all == 0 || is_unknown(all, terms)) return terms;
    const double lse = log_sum_exp(narrow, inexact).value(0, 0);
    const RunningState exact = add_inherited_terms(narrow, rows, bound, terms);

    const bool joins = call.problem.sink == AttentionSink::last && call.units.lse_includes_sink;
    const double m = joins ? std::max(exact.m.value(0, 0), call.sink) : exact.m.value(0, 0);
    const double log_scale = std::abs(std::log(call.units.l_scale));
    const double log_sum = std::abs(lse - m) + log_scale;
    const double logarithm = log_function_bound(log_sum);
    // A sink may join a logarithm that is there already.
    const double own_m = exact.m.value(0, 0);
    const double own_l = std::abs(std::log(std::max(exact.l.value(0, 0), 1e-300)));
    const double own_magnitude = joins && std::isfinite(own_m) ? std::abs(own_m) + own_l : 0;
    const double magnitude = std::abs(m) + log_sum + own_magnitude;
    const double adding = gamma(5, u_f32) * magnitude;
    const double own = u_oracle * std::abs(lse);
    if (joins) {
        terms.add("sink", "its exponential and sum, over l",
                  part_of(bound(narrow, exact), logarithm + adding + own), "CUDA guide, math");
    }
    terms.add("logarithm", fmt::format("2^-21.41 + {:.3g} * {:.3g}", 6 * u_f32, log_sum), logarithm,
              "CUDA guide, math");
    terms.add("adding m and ln l", roundings(5, magnitude), adding, "Higham, lemma 3.1");
    terms.add_own_error(own);
    return terms;
}

}  // namespace tilescope
