// What goes wrong after the last tile: o and lse.

#include <algorithm>
#include <cmath>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

/// One pass, whose lse is natural and whose l is not scaled.
void need_natural_lse(Call& call) {
    need_natural_softmax(call);
    Arithmetic& a = call.arithmetic;
    a.lse_log_base = LogBase::e;
    a.p_scale = 1;
    call.problem.kv_tiles_per_split = 0;
    call.problem.sink = AttentionSink::none;
}
void need_lse_of_base_e(Call& call) {
    call.arithmetic.lse_log_base = LogBase::e;
    call.problem.kv_tiles_per_split = 0;
}
void need_one_pass(Call& call) {
    call.problem.kv_tiles_per_split = 0;
}
void need_splits(Call& call) {
    call.problem.kv_tiles_per_split = 2;
}
void need_last_sink(Call& call) {
    need_one_pass(call);
    call.problem.sink = AttentionSink::last;
    call.arithmetic.lse_includes_sink = true;
}
void need_empty_rows(Call& call) {
    need_hidden_rows(call);
    need_one_pass(call);
    call.arithmetic.o_empty_row = EmptyRow::zero;
}
void need_full_heads(Call& call) {
    call.problem.heads = std::max<std::int64_t>(call.problem.heads, 2 * call.problem.heads_kv);
    // Two heads of one query block: another's o has the same rows.
    call.inputs.side.seqlens_q.clear();
}
void need_precise_o(Call& call) {
    need_one_pass(call);
    call.problem.dtype_o = Dtype::f16;
}

const MistakeInfo output_table[] = {
    {Mistake::o_not_normalised,
     "o_not_normalised",
     {"not_normalised"},
     Stage::o,
     need_nothing,
     {.divided = [](const Block&, float acc, float) { return acc; }}},
    {Mistake::o_normalised_twice,
     "o_normalised_twice",
     {"double_normalised"},
     Stage::o,
     need_nothing,
     {.divided = [](const Block& b, float acc, float l) { return b.quotient(b.quotient(acc, l), l); }}},
    {Mistake::epsilon_in_denominator,
     "epsilon_in_denominator",
     {"epsilon_in_denominator"},
     Stage::o,
     need_nothing,
     {.divided = [](const Block& b, float acc, float l) { return b.quotient(acc, l + 0.01f); }}},
    {Mistake::o_halved,
     "o_halved",
     {"output_constant"},
     Stage::o,
     need_one_pass,
     {.output =
          [](const Block&, const EndedRow&, RowOutput& out) {
              for (float& value : out.o) value /= 2;
          }}},
    {Mistake::split_dropped,
     "split_dropped",
     {"split_dropped"},
     Stage::o,
     need_splits,
     {.splits = [](const Block&, std::vector<RowOutput>& splits) { splits.pop_back(); }}},
    {Mistake::splits_averaged,
     "splits_averaged",
     {"splits_averaged"},
     Stage::o,
     need_splits,
     {.weight = [](const Block&, float, std::int64_t splits) { return 1 / float(splits); }}},
    {Mistake::split_base_mixed,
     "split_base_mixed",
     {"split_base_mixed"},
     Stage::o,
     need_splits,
     {.splits =
          [](const Block& b, std::vector<RowOutput>& splits) {
              const bool base_two = b.a.lse_log_base == LogBase::two;
              for (RowOutput& split : splits) split.lse *= base_two ? ln2 : log2e;
          }}},
    {Mistake::o_of_other_head,
     "o_of_other_head",
     {"o_of_other_head"},
     Stage::o,
     need_full_heads,
     {.o_head = [](const Block& b) { return (b.id.head + 1) % b.p.heads; }}},
    {Mistake::o_rounded_to_bf16,
     "o_rounded_to_bf16",
     {"o_precision"},
     Stage::o,
     need_precise_o,
     {.output =
          [](const Block&, const EndedRow&, RowOutput& out) {
              for (float& value : out.o) value = rounded(Dtype::bf16, value);
          }}},
    {Mistake::o_truncated,
     "o_truncated",
     {"cast_truncated"},
     Stage::o,
     need_precise_o,
     {.output =
          [](const Block&, const EndedRow&, RowOutput& out) {
              for (float& value : out.o) {
                  const float near = rounded(Dtype::f16, value);
                  const bool is_beyond = std::abs(near) > std::abs(value);
                  value = is_beyond ? decode(Dtype::f16, encode(Dtype::f16, near) - 1) : near;
              }
          }}},
    {Mistake::empty_row_nan,
     "empty_row_nan",
     {"zero_row_convention"},
     Stage::o,
     need_empty_rows,
     {.output =
          [](const Block&, const EndedRow& row, RowOutput& out) {
              if (row.l == 0) std::ranges::fill(out.o, nan);
          }}},
    {Mistake::sink_missing_in_denominator,
     "sink_missing_in_denominator",
     {"sink_missing_in_denominator", "sink_missing"},
     Stage::o,
     need_last_sink,
     {.call = [](Call& call) { call.problem.sink = AttentionSink::none; }}},
    {Mistake::o_columns_uncovered,
     "o_columns_uncovered",
     {"columns_uncovered"},
     Stage::o,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::o && spot.col >= b.p.head_dim_v / 2 ? 0 : value;
          }}},
    {Mistake::o_rows_uncovered,
     "o_rows_uncovered",
     {"rows_uncovered"},
     Stage::o,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::o && spot.row >= b.p.block_m / 2 ? 0 : value;
          }}},
    {Mistake::p_scale_left_in_o,
     "p_scale_left_in_o",
     {"p_scale_left", "output_constant"},
     Stage::o,
     need_p_scale,
     {.o_scale = [](const Block&, float) { return 1.0f; }}},

    {Mistake::lse_base_two,
     "lse_base_two",
     {"lse_in_other_base"},
     Stage::lse,
     need_lse_of_base_e,
     {.output = [](const Block&, const EndedRow&, RowOutput& out) { out.lse *= log2e; }}},
    {Mistake::lse_without_max,
     "lse_without_max",
     {"lse_without_max"},
     Stage::lse,
     need_natural_lse,
     {.output = [](const Block&, const EndedRow& row, RowOutput& out) { out.lse = std::log(row.l); }}},
    {Mistake::lse_without_log,
     "lse_without_log",
     {"lse_without_log"},
     Stage::lse,
     need_natural_lse,
     {.output = [](const Block&, const EndedRow& row, RowOutput& out) { out.lse = row.m + row.l; }}},
    {Mistake::lse_of_max_alone,
     "lse_of_max_alone",
     {"lse_without_sum"},
     Stage::lse,
     need_natural_lse,
     {.output = [](const Block&, const EndedRow& row, RowOutput& out) { out.lse = row.m; }}},
    {Mistake::lse_sink_missing,
     "lse_sink_missing",
     {"lse_sink_missing"},
     Stage::lse,
     need_last_sink,
     {.call = [](Call& call) { call.arithmetic.lse_includes_sink = false; }}},
    {Mistake::lse_sign,
     "lse_sign",
     {"lse_sign"},
     Stage::lse,
     need_nothing,
     {.spoilt = [](const Block&, const Spot& spot,
                   float value) { return spot.stage == Stage::lse ? -value : value; }}},
};

}  // namespace

std::span<const MistakeInfo> output_mistakes() {
    return output_table;
}

}  // namespace tilescope::test
