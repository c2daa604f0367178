// What goes wrong in the online softmax: m, p and l.

#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

constexpr std::int64_t lanes = 4;
constexpr std::int64_t rows_of_group = 4;

bool every_column(std::int64_t) {
    return true;
}

/// The number of the type next to `value` on the side of 0.
float truncated(Dtype dtype, float value) {
    const float near = rounded(dtype, value, Overflow::saturate);
    if (std::abs(near) <= std::abs(value)) return near;
    return decode(dtype, encode(dtype, near) - 1);
}

float first_of_maxima(const MaxStep& step, float start) {
    return max_over(step, step.row, start, every_column);
}

/// Of the rows that share a group with the step's: [first, last).
std::pair<std::int64_t, std::int64_t> group_of(std::int64_t row, std::int64_t rows) {
    const std::int64_t first = row / rows_of_group * rows_of_group;
    return {first, std::min(first + rows_of_group, rows)};
}

/// P with the argument of its exponential changed; masked cells stay 0.
template <class Change>
float p_with(const ProbabilityStep& step, const Change& change) {
    if (step.score() == -infinity) return 0;
    return exponential(step.b, change(exponent(step, step.m.at(step.row, 0))));
}

/// What exp(s - m) of a row without a score gives, of -inf - -inf or of a finite sentinel.
float p_of_empty_row(const ProbabilityStep& step, float value) {
    const bool empty = step.score() == -infinity && step.m.at(step.row, 0) == -infinity;
    return empty ? value : probability(step);
}

/// l with the factor of its rescaling changed.
float l_with(const SumStep& step, float before, float factor) {
    return next_l(step, before, factor, summands(step.b, step.p, step.row));
}

/// l of the columns that `keep` names, times `count`.
template <class Keep>
float l_of_columns(const SumStep& step, float count, const Keep& keep) {
    std::vector<float> added = summands(step.b, step.p, step.row);
    for (std::size_t j = 0; j < added.size(); ++j) added[j] = keep(std::int64_t(j)) ? count * added[j] : 0;
    return next_l(step, step.l(), step.factor(), added);
}

void need_tails(Call& call) {
    need_natural_softmax(call);
    call.arithmetic.p_operand = Dtype::f32;
}
void need_base_two(Call& call) {
    call.arithmetic.softmax = Softmax::base_two;
}
/// P as it is dumped is not declared to be rounded.
void need_float_p(Call& call) {
    call.arithmetic.p_operand = Dtype::f32;
    if (is_half(call.arithmetic.pv_sum)) call.arithmetic.pv_sum = Sum::sequential;
}
void need_half_p(Call& call) {
    call.arithmetic.p_operand = Dtype::f16;
    call.arithmetic.dumps_cast_p = true;
    call.arithmetic.l_sums_cast_p = false;
}
void need_summed_half_p(Call& call) {
    need_half_p(call);
    call.arithmetic.l_sums_cast_p = true;
}
void need_saturation(Call& call) {
    Arithmetic& a = call.arithmetic;
    need_p_scale(call);
    a.p_scale = 448;
    a.stale_threshold = 4;
    a.dumps_cast_p = true;
}
void need_undumped_half_p(Call& call) {
    need_half_p(call);
    call.arithmetic.dumps_cast_p = false;
}
void need_first_sink(Call& call) {
    call.problem.sink = AttentionSink::first;
    call.problem.heads = std::max<std::int64_t>(call.problem.heads, 2 * call.problem.heads_kv);
}

const MistakeInfo softmax_table[] = {
    {Mistake::max_of_half_tile,
     "max_of_half_tile",
     {"m_of_part_of_row"},
     Stage::m,
     need_nothing,
     {.max =
          [](const MaxStep& step) {
              const std::int64_t half = step.b.p.block_n / 2;
              return max_over(step, step.row, step.before.at(step.row, 0),
                              [&](std::int64_t j) { return j < half; });
          }}},
    {Mistake::max_of_own_lane,
     "max_of_own_lane",
     {"m_of_part_of_row"},
     Stage::m,
     need_nothing,
     {.max =
          [](const MaxStep& step) {
              return max_over(step, step.row, step.before.at(step.row, 0),
                              [](std::int64_t j) { return j % lanes == 0; });
          }}},
    {Mistake::max_of_four_rows,
     "max_of_four_rows",
     {"m_of_several_rows"},
     Stage::m,
     need_nothing,
     {.max =
          [](const MaxStep& step) {
              const auto [first, last] = group_of(step.row, step.b.rows);
              float most = -infinity;
              for (std::int64_t row = first; row < last; ++row)
                  most = std::max(most, max_over(step, row, step.before.at(row, 0), every_column));
              return most;
          }}},
    {Mistake::m_not_carried,
     "m_not_carried",
     {"m_not_carried"},
     Stage::m,
     need_nothing,
     {.max = [](const MaxStep& step) { return first_of_maxima(step, -infinity); }}},
    {Mistake::m_starts_at_zero,
     "m_starts_at_zero",
     {"m_starts_at"},
     Stage::m,
     need_nothing,
     {.initial = [](const Block&, State& state) { std::ranges::fill(state.m.values, 0.0f); }}},
    {Mistake::m_starts_at_sentinel,
     "m_starts_at_sentinel",
     {"m_starts_at"},
     Stage::m,
     need_nothing,
     {.initial = [](const Block&, State& state) { std::ranges::fill(state.m.values, -1e4f); }}},
    {Mistake::m_in_other_base,
     "m_in_other_base",
     {"m_in_other_base"},
     Stage::m,
     need_natural_softmax,
     {.max =
          [](const MaxStep& step) {
              return std::max(step.before.at(step.row, 0), first_of_maxima(step, -infinity) * log2e);
          }}},

    {Mistake::p_clamped,
     "p_clamped",
     {"exp_clamped"},
     Stage::p,
     need_nothing,
     {.probability =
          [](const ProbabilityStep& step) {
              return p_with(step, [](float x) { return std::max(x, -1.0f); });
          }}},
    {Mistake::p_of_base_two,
     "p_of_base_two",
     {"exp_base"},
     Stage::p,
     need_natural_softmax,
     {.probability =
          [](const ProbabilityStep& step) { return p_with(step, [](float x) { return x * ln2; }); }}},
    {Mistake::p_of_base_e,
     "p_of_base_e",
     {"exp_base"},
     Stage::p,
     need_base_two,
     {.probability =
          [](const ProbabilityStep& step) { return p_with(step, [](float x) { return x * log2e; }); }}},
    {Mistake::p_of_old_max,
     "p_of_old_max",
     {"p_of_old_max"},
     Stage::p,
     need_nothing,
     {.probability =
          [](const ProbabilityStep& step) {
              const float before = step.before.at(step.row, 0);
              if (step.score() == -infinity || before == -infinity) return probability(step);
              return exponential(step.b, exponent(step, before));
          }}},
    {Mistake::p_rounded_to_bf16,
     "p_rounded_to_bf16",
     {"undeclared_cast"},
     Stage::p,
     need_float_p,
     {.probability =
          [](const ProbabilityStep& step) {
              return rounded(Dtype::bf16, probability(step), Overflow::saturate);
          }}},
    {Mistake::p_rounded_to_e4m3,
     "p_rounded_to_e4m3",
     {"undeclared_cast"},
     Stage::p,
     need_float_p,
     {.probability =
          [](const ProbabilityStep& step) {
              return rounded(Dtype::e4m3, probability(step), Overflow::saturate);
          }}},
    {Mistake::masked_p_of_one,
     "masked_p_of_one",
     {"masked_p_not_zero"},
     Stage::p,
     need_hidden_rows,
     {.probability = [](const ProbabilityStep& step) { return p_of_empty_row(step, 1); }}},
    {Mistake::inf_minus_inf,
     "inf_minus_inf",
     {"inf_minus_inf"},
     Stage::p,
     need_hidden_rows,
     {.probability = [](const ProbabilityStep& step) { return p_of_empty_row(step, nan); }}},
    {Mistake::p_scale_missing,
     "p_scale_missing",
     {"p_scale_missing"},
     Stage::p,
     need_p_scale,
     {.call = [](Call& call) { call.arithmetic.p_scale = 1; }}},
    {Mistake::p_not_saturated,
     "p_not_saturated",
     {"p_not_saturated"},
     Stage::p,
     need_saturation,
     {.cast = [](const Block&, float scaled) { return rounded(Dtype::e4m3, scaled); }}},
    {Mistake::p_flushed,
     "p_flushed",
     {"p_flushed"},
     Stage::p,
     need_tails,
     {.probability =
          [](const ProbabilityStep& step) {
              const float p = probability(step);
              return p < 0x1p-14f ? 0 : p;
          }}},
    {Mistake::p_lane_stride,
     "p_lane_stride",
     {"p_lane_stride", "never_written"},
     Stage::p,
     need_nothing,
     {.spoilt = [](const Block&, const Spot& spot,
                   float value) { return spot.stage == Stage::p && spot.col % 2 == 1 ? 0 : value; },
      .dumped =
          [](const Block&, const Spot& spot, float value) {
              const bool left_out = spot.stage == Stage::p && spot.col % 2 == 1;
              return left_out ? unwritten : value;
          }}},

    {Mistake::l_not_rescaled,
     "l_not_rescaled",
     {"l_not_rescaled"},
     Stage::l,
     need_nothing,
     {.sum = [](const SumStep& step) { return l_with(step, step.l(), 1); }}},
    {Mistake::l_rescaled_inversely,
     "l_rescaled_inversely",
     {"l_rescaled_inversely"},
     Stage::l,
     need_nothing,
     {.sum =
          [](const SumStep& step) {
              const float factor = step.factor();
              return l_with(step, step.l(), factor == 0 ? 0 : 1 / factor);
          }}},
    {Mistake::l_rescaled_twice,
     "l_rescaled_twice",
     {"l_rescaled_twice"},
     Stage::l,
     need_nothing,
     {.sum = [](const SumStep& step) { return l_with(step, step.l(), step.factor() * step.factor()); }}},
    {Mistake::l_starts_at_one,
     "l_starts_at_one",
     // Where its first tile is one key, P is 1 in all rows.
     {"l_starts_at", "l_of_several_rows"},
     Stage::l,
     need_nothing,
     {.initial = [](const Block&, State& state) { std::ranges::fill(state.l.values, 1.0f); },
      // exp(-inf - m) is guarded against by a factor of 1.
      .sum =
          [](const SumStep& step) {
              const bool first = step.before_m.at(step.row, 0) == -infinity;
              return l_with(step, step.l(), first ? 1 : step.factor());
          }}},
    {Mistake::l_of_half_row,
     "l_of_half_row",
     {"l_of_part_of_row"},
     Stage::l,
     need_nothing,
     {.sum =
          [](const SumStep& step) {
              const std::int64_t half = step.b.p.block_n / 2;
              return l_of_columns(step, 1, [&](std::int64_t j) { return j < half; });
          }}},
    {Mistake::l_of_own_lane,
     "l_of_own_lane",
     {"l_of_part_of_row"},
     Stage::l,
     need_nothing,
     {.sum =
          [](const SumStep& step) {
              return l_of_columns(step, 1, [](std::int64_t j) { return j % lanes == 0; });
          }}},
    {Mistake::l_counted_per_lane,
     "l_counted_per_lane",
     {"l_counted_n_times"},
     Stage::l,
     need_nothing,
     {.sum = [](const SumStep& step) { return l_of_columns(step, float(lanes), every_column); }}},
    {Mistake::l_of_cast_p,
     "l_of_cast_p",
     {"l_of_cast_p"},
     Stage::l,
     need_half_p,
     {.call = [](Call& call) { call.arithmetic.l_sums_cast_p = true; }}},
    {Mistake::l_of_uncast_p,
     "l_of_uncast_p",
     {"l_of_uncast_p"},
     Stage::l,
     need_summed_half_p,
     {.call = [](Call& call) { call.arithmetic.l_sums_cast_p = false; }}},
    {Mistake::l_of_four_rows,
     "l_of_four_rows",
     {"l_of_several_rows"},
     Stage::l,
     need_nothing,
     {.sum =
          [](const SumStep& step) {
              const auto [first, last] = group_of(step.row, step.b.rows);
              std::vector<float> added = summands(step.b, step.p, first);
              for (std::int64_t row = first + 1; row < last; ++row) {
                  const std::vector<float> more = summands(step.b, step.p, row);
                  std::ranges::transform(added, more, added.begin(), std::plus());
              }
              return next_l(step, step.l(), step.factor(), added);
          }}},
    {Mistake::l_not_carried,
     "l_not_carried",
     {"l_not_carried"},
     Stage::l,
     need_nothing,
     {.sum = [](const SumStep& step) { return l_with(step, 0, 1); }}},
    {Mistake::l_floored,
     "l_floored",
     {"l_floored"},
     Stage::l,
     need_hidden_rows,
     {.sum = [](const SumStep& step) { return std::max(1e-6f, l_with(step, step.l(), step.factor())); }}},
    {Mistake::sink_missing_at_start,
     "sink_missing_at_start",
     {"sink_missing"},
     Stage::l,
     need_first_sink,
     {.call = [](Call& call) { call.problem.sink = AttentionSink::none; }}},
    {Mistake::sink_twice_at_start,
     "sink_twice_at_start",
     {"sink_twice"},
     Stage::l,
     need_first_sink,
     {.initial =
          [](const Block&, State& state) {
              for (float& l : state.l.values) l *= 2;
          }}},
    {Mistake::sink_times_scale,
     "sink_times_scale",
     {"sink_scaled"},
     Stage::m,
     need_first_sink,
     {.call =
          [](Call& call) {
              for (float& sink : call.inputs.side.sink) sink *= float(call.problem.sm_scale);
          }}},
    {Mistake::p_truncated,
     "p_truncated",
     {"cast_truncated"},
     Stage::p,
     need_half_p,
     {.cast = [](const Block&, float scaled) { return truncated(Dtype::f16, scaled); }}},
    {Mistake::p_truncated_for_v,
     "p_truncated_for_v",
     {"cast_truncated"},
     Stage::acc,
     need_undumped_half_p,
     {.cast = [](const Block&, float scaled) { return truncated(Dtype::f16, scaled); }}},
    {Mistake::sink_of_other_head,
     "sink_of_other_head",
     {"sink_of_other_head"},
     Stage::l,
     need_first_sink,
     {.call =
          [](Call& call) {
              std::vector<float>& sinks = call.inputs.side.sink;
              std::ranges::rotate(sinks, sinks.begin() + 1);
          }}},
};

}  // namespace

std::span<const MistakeInfo> softmax_mistakes() {
    return softmax_table;
}

}  // namespace tilescope::test
