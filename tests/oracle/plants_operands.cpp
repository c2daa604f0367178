// What goes wrong as q, k and v are loaded.

#include <algorithm>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

bool of_keys(Stage stage) {
    return stage == Stage::k || stage == Stage::v;
}

template <Stage stage>
float rounded_to(Stage at, Dtype dtype, float value) {
    return at == stage ? rounded(dtype, value, Overflow::saturate) : value;
}

/// The element that an index of [batch][seqlen][heads][head_dim] finds in [batch][heads][seqlen][head_dim].
void read_as_bshd(std::int64_t heads, std::int64_t rows, std::int64_t cols, Source& from) {
    std::int64_t index = ((from.batch * rows + from.row) * heads + from.head) * cols + from.col;
    from.col = index % cols;
    index /= cols;
    from.row = index % rows;
    index /= rows;
    from.head = index % heads;
    from.batch = index / heads;
}

void need_heads(Call& call) {
    need_groups(call);
    call.inputs.side.seqlens_q.clear();
    call.inputs.side.seqlens_kv.clear();
}
void need_half_operands(Call& call) {
    Problem& p = call.problem;
    p.dtype_q = p.dtype_k = p.dtype_v = Dtype::f16;
}

const MistakeInfo operand_table[] = {
    {Mistake::q_row_zeroed,
     "q_row_zeroed",
     {"rows_zeroed"},
     Stage::q,
     need_nothing,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              if (stage == Stage::q) from.value = 0.0f;
          }}},
    {Mistake::q_tail_rows_zeroed,
     "q_tail_rows_zeroed",
     {"rows_zeroed"},
     Stage::q,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              // The zero padding of the last block begins early.
              if (stage == Stage::q && from.row >= b.p.seqlen_q - 3) from.value = 0.0f;
          }}},
    {Mistake::k_rows_not_loaded,
     "k_rows_not_loaded",
     {"rows_not_loaded"},
     Stage::k,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              // What the tile before left there, or nothing.
              const bool left_out = from.row - b.first_key() >= b.p.block_n * 3 / 4;
              if (stage == Stage::k && left_out) from.row -= b.p.block_n;
          }}},
    {Mistake::v_rows_not_loaded,
     "v_rows_not_loaded",
     {"rows_not_loaded", "rows_zeroed"},
     Stage::v,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::v && (from.row - b.first_key()) % 2 == 1) from.value = 0.0f;
          }}},
    {Mistake::stale_k_tile,
     "stale_k_tile",
     {"other_kv_tile"},
     Stage::k,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::k && b.id.kv_tile > 0) from.row -= b.p.block_n;
          }}},
    {Mistake::swapped_v_tile,
     "swapped_v_tile",
     {"other_kv_tile"},
     Stage::v,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::v && b.id.kv_tile > 0) from.row -= b.p.block_n;
          }}},
    {Mistake::kv_tile_late,
     "kv_tile_late",
     {"other_kv_tile"},
     Stage::k,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (of_keys(stage) && b.id.kv_tile >= 2) from.row -= 2 * b.p.block_n;
          }}},
    {Mistake::v_next_tile,
     "v_next_tile",
     {"other_kv_tile"},
     Stage::v,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage != Stage::v || b.id.kv_tile + 1 >= b.p.kv_tiles()) return;
              from.row += b.p.block_n;
              if (from.row >= b.p.seqlen_kv) from.value = 0.0f;
          }}},
    {Mistake::q_rows_shifted,
     "q_rows_shifted",
     {"rows_shifted"},
     Stage::q,
     need_nothing,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              if (stage == Stage::q) ++from.row;
          }}},
    {Mistake::k_rows_shifted,
     "k_rows_shifted",
     {"rows_shifted"},
     Stage::k,
     need_nothing,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              if (of_keys(stage)) --from.row;
          }}},
    {Mistake::kv_head_modulo,
     "kv_head_modulo",
     {"kv_head_modulo"},
     Stage::k,
     need_heads,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (of_keys(stage)) from.head = b.id.head % b.p.heads_kv;
          }}},
    {Mistake::kv_head_zero,
     "kv_head_zero",
     {"other_kv_head"},
     Stage::k,
     need_heads,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              if (of_keys(stage)) from.head = 0;
          }}},
    {Mistake::kv_of_first_batch,
     "kv_of_first_batch",
     {"other_batch"},
     Stage::k,
     need_batches,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              if (of_keys(stage)) from.batch = 0;
          }}},
    {Mistake::q_bshd_as_bhsd,
     "q_bshd_as_bhsd",
     {"bshd_as_bhsd"},
     Stage::q,
     need_heads,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::q)
                  read_as_bshd(b.p.heads, b.run.recording.problem().seqlen_q, b.p.head_dim, from);
          }}},
    {Mistake::k_bshd_as_bhsd,
     "k_bshd_as_bhsd",
     {"bshd_as_bhsd"},
     Stage::k,
     need_heads,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::k)
                  read_as_bshd(b.p.heads_kv, b.run.recording.problem().seqlen_kv, b.p.head_dim, from);
          }}},
    {Mistake::q_descale_twice,
     "q_descale_twice",
     {"descale_twice"},
     Stage::q,
     need_fp8,
     {.call =
          [](Call& call) {
              for (float& value : call.inputs.side.descale_q.values) value *= value;
          }}},
    {Mistake::k_descale_missing,
     "k_descale_missing",
     {"descale_missing"},
     Stage::k,
     need_fp8,
     {.call = [](Call& call) { call.inputs.side.descale_k = {}; }}},
    {Mistake::v_descale_of_other_head,
     "v_descale_of_other_head",
     {"descale_of_other_head"},
     Stage::v,
     need_fp8,
     {.call = [](Call& call) { rotate_heads(call.inputs.side.descale_v); }}},
    {Mistake::q_rounded_to_bf16,
     "q_rounded_to_bf16",
     {"operand_precision"},
     Stage::q,
     need_half_operands,
     {.staged = [](const Block&, const Spot& spot,
                   float value) { return rounded_to<Stage::q>(spot.stage, Dtype::bf16, value); }}},
    {Mistake::negative_codes_lost,
     "negative_codes_lost",
     {"codes_not_decoded"},
     Stage::k,
     need_fp8,
     {.staged = [](const Block&, const Spot& spot,
                   float value) { return spot.stage == Stage::k && value < 0 ? 0 : value; }}},
    {Mistake::k_rounded_to_e4m3,
     "k_rounded_to_e4m3",
     {"operand_precision"},
     Stage::k,
     need_half_operands,
     {.staged = [](const Block&, const Spot& spot,
                   float value) { return rounded_to<Stage::k>(spot.stage, Dtype::e4m3, value); }}},
    {Mistake::k_staged_transposed,
     "k_staged_transposed",
     {"operand_transposed"},
     Stage::k,
     need_square_k,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage != Stage::k) return;
              const std::int64_t row = from.row - b.first_key();
              from.row = b.first_key() + from.col;
              from.col = row;
              if (from.row >= b.p.seqlen_kv) from.value = 0.0f;
          }}},
    {Mistake::v_columns_permuted,
     "v_columns_permuted",
     {"elements_moved"},
     Stage::v,
     need_nothing,
     {.load =
          [](const Block&, Stage stage, Source& from) {
              // 0 4 1 5 2 6 3 7
              const std::int64_t in_eight = from.col % 8;
              if (stage == Stage::v) from.col += in_eight % 2 * 4 + in_eight / 2 - in_eight;
          }}},
    {Mistake::q_head_dim_truncated,
     "q_head_dim_truncated",
     {"head_dim_truncated"},
     Stage::q,
     need_nothing,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::q && from.col >= b.p.head_dim / 2) from.value = 0.0f;
          }}},
};

}  // namespace

std::span<const MistakeInfo> operand_mistakes() {
    return operand_table;
}

}  // namespace tilescope::test
