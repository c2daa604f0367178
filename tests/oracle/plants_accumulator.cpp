// What goes wrong in acc.

#include <algorithm>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

float acc_with(const AccStep& step, float factor) {
    return next_acc(step, step.acc(), factor);
}

/// The first rows of a tile that was there before, where it has enough of them.
Tile before_or(const std::optional<Tile>& before, const Tile& now) {
    if (!before || before->rows < now.rows) return now;
    Tile taken = *before;
    taken.rows = now.rows;
    taken.values.resize(now.values.size());
    return taken;
}

float descale_of_next_head(const Block& b) {
    return b.in.side.descale_v.at(b.id.batch, (b.head_kv() + 1) % b.p.heads_kv, b.first_key());
}

void need_square_v(Call& call) {
    call.problem.head_dim_v = call.problem.block_n;
}
void need_float_acc(Call& call) {
    call.problem.dtype_acc = Dtype::f32;
    if (is_half(call.arithmetic.pv_sum)) call.arithmetic.pv_sum = Sum::sequential;
}
/// The scale of P is divided out as its products join acc.
void need_scale_divided_out(Call& call) {
    need_p_scale(call);
    call.arithmetic.acc_scaled = false;
}
void need_cast_p(Call& call) {
    call.arithmetic.p_operand = Dtype::bf16;
}

const MistakeInfo accumulator_table[] = {
    {Mistake::acc_not_rescaled,
     "acc_not_rescaled",
     {"acc_not_rescaled"},
     Stage::acc,
     need_nothing,
     {.acc = [](const AccStep& step) { return acc_with(step, 1); }}},
    {Mistake::acc_rescaled_inversely,
     "acc_rescaled_inversely",
     {"acc_rescaled_inversely"},
     Stage::acc,
     need_nothing,
     {.acc =
          [](const AccStep& step) {
              const float factor = step.factor();
              return acc_with(step, factor == 0 ? 0 : 1 / factor);
          }}},
    {Mistake::acc_rescaled_twice,
     "acc_rescaled_twice",
     {"acc_rescaled_twice"},
     Stage::acc,
     need_nothing,
     {.acc = [](const AccStep& step) { return acc_with(step, step.factor() * step.factor()); }}},
    {Mistake::acc_rescaled_by_other_row,
     "acc_rescaled_by_other_row",
     {"formula"},
     Stage::acc,
     need_nothing,
     {.acc =
          [](const AccStep& step) { return acc_with(step, step.factors[std::size_t(step.row / 4 * 4)]); }}},
    {Mistake::acc_not_carried,
     "acc_not_carried",
     {"acc_not_carried"},
     Stage::acc,
     need_nothing,
     {.acc = [](const AccStep& step) { return next_acc(step, 0, 1); }}},
    {Mistake::half_accumulator,
     "half_accumulator",
     {"half_accumulator"},
     Stage::acc,
     need_float_acc,
     {.call = [](Call& call) { call.arithmetic.pv_sum = Sum::half_fma; }}},
    {Mistake::acc_kept_in_half,
     "acc_kept_in_half",
     {"half_accumulator"},
     Stage::acc,
     need_float_acc,
     {.acc = [](const AccStep& step) { return to_half(acc_with(step, step.factor())); }}},
    {Mistake::nan_times_zero,
     "nan_times_zero",
     {"nan_times_zero"},
     Stage::acc,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage != Stage::q && from.row >= b.p.seqlen_kv) from.value = stage == Stage::v ? nan : 0.0f;
          },
      .tail = Tail::masked}},
    {Mistake::v_of_tile_before,
     "v_of_tile_before",
     {"v_of_other_tile"},
     Stage::acc,
     need_nothing,
     {.v_operand = [](const Block& b, const Tile& v) { return before_or(b.earlier->v, v); }}},
    {Mistake::v_not_transposed,
     "v_not_transposed",
     {"v_not_transposed"},
     Stage::acc,
     need_square_v,
     {.v_operand =
          [](const Block&, const Tile& v) {
              return read_with(v, [&](std::int64_t i, std::int64_t d) { return d * v.cols + i; });
          }}},
    {Mistake::v_wrong_leading_dimension,
     "v_wrong_leading_dimension",
     {"v_wrong_leading_dimension"},
     Stage::acc,
     need_nothing,
     {.v_operand =
          [](const Block&, const Tile& v) {
              return read_with(v, [&](std::int64_t i, std::int64_t d) { return i * (v.cols - 8) + d; });
          }}},
    {Mistake::pv_slice_missing,
     "pv_slice_missing",
     {"pv_slice_missing"},
     Stage::acc,
     need_nothing,
     {.p_operand =
          [](const Block& b, const Probabilities& p) {
              Tile left = p.operand;
              for (std::int64_t i = 0; i < left.rows; ++i) {
                  for (std::int64_t j = b.p.block_n / 2; j < std::min(left.cols, b.p.block_n * 3 / 4); ++j)
                      left.at(i, j) = 0;
              }
              return left;
          }}},
    {Mistake::p_of_tile_before,
     "p_of_tile_before",
     {"p_of_other_tile"},
     Stage::acc,
     need_nothing,
     {.p_operand =
          [](const Block& b, const Probabilities& p) {
              const bool kept = b.earlier->p && b.earlier->p->operand.cols == p.operand.cols;
              return kept ? b.earlier->p->operand : p.operand;
          }}},
    {Mistake::acc_columns_uncovered,
     "acc_columns_uncovered",
     {"columns_uncovered"},
     Stage::acc,
     need_nothing,
     {.acc =
          [](const AccStep& step) {
              return step.col < step.v.cols / 2 ? acc_with(step, step.factor()) : 0;
          }}},
    {Mistake::acc_rows_uncovered,
     "acc_rows_uncovered",
     {"rows_uncovered"},
     Stage::acc,
     need_nothing,
     {.acc =
          [](const AccStep& step) {
              return step.row < step.b.p.block_m / 2 ? acc_with(step, step.factor()) : 0;
          }}},
    {Mistake::descale_v_missing_in_acc,
     "descale_v_missing_in_acc",
     {"descale_v_missing"},
     Stage::acc,
     need_raw_fp8,
     {.joins_with = [](const Block& b, float factor) { return factor / b.v_descale(); }}},
    {Mistake::descale_v_twice_in_acc,
     "descale_v_twice_in_acc",
     {"descale_v_twice"},
     Stage::acc,
     need_raw_fp8,
     {.joins_with = [](const Block& b, float factor) { return factor * b.v_descale(); }}},
    {Mistake::descale_v_of_other_head_in_acc,
     "descale_v_of_other_head_in_acc",
     {"descale_v_of_other_head"},
     Stage::acc,
     need_raw_fp8,
     {.joins_with = [](const Block& b,
                       float factor) { return factor / b.v_descale() * descale_of_next_head(b); }}},
    {Mistake::p_scale_left_in_acc,
     "p_scale_left_in_acc",
     {"p_scale_left"},
     Stage::acc,
     need_scale_divided_out,
     {.joins_with = [](const Block& b, float factor) { return factor * float(b.a.p_scale); }}},
    {Mistake::uncast_p_multiplied,
     "uncast_p_multiplied",
     {"uncast_p_multiplied"},
     Stage::acc,
     need_cast_p,
     {.p_operand = [](const Block&, const Probabilities& p) { return p.scaled; }}},
};

}  // namespace

std::span<const MistakeInfo> accumulator_mistakes() {
    return accumulator_table;
}

}  // namespace tilescope::test
