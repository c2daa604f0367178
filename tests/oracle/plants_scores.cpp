// What goes wrong as the scores are computed: products, constants, cap and bias.

#include <algorithm>
#include <cmath>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

Tile without_columns(const Tile& k, std::int64_t first, std::int64_t last) {
    Tile left = k;
    for (std::int64_t i = 0; i < k.rows; ++i) {
        for (std::int64_t j = first; j < last; ++j) left.at(i, j) = 0;
    }
    return left;
}

/// A head_dim that kernels pad to 32.
void need_padding(Call& call) {
    need_plain_scores(call);
    call.problem.head_dim = 24;
    call.problem.sm_scale = double(float(1 / std::sqrt(24.0)));
}
void need_cap(Call& call) {
    call.problem.logits_soft_cap = 5;
    call.arithmetic.dumps_uncapped_s = false;
}
void need_cap_and_causal(Call& call) {
    need_cap(call);
    need_causal(call);
}
void need_bias(Call& call) {
    const Problem& p = call.problem;
    call.inputs.bias = {1, p.heads, p.seqlen_q, p.seqlen_kv, {}};
    call.arithmetic.dumps_unbiased_s = false;
}
void need_bias_of_heads(Call& call) {
    call.problem.heads = std::max<std::int64_t>(call.problem.heads, 2 * call.problem.heads_kv);
    need_bias(call);
}
/// Declared to be summed in float32.
void need_wide_fp8_sum(Call& call) {
    need_raw_fp8(call);
    call.arithmetic.score_sum = Sum::sequential;
}
void need_bias_without_cap(Call& call) {
    need_bias(call);
    need_scaled_scores(call);
    call.problem.logits_soft_cap = 0;
    call.problem.alibi = Alibi::none;
}
void need_alibi(Call& call) {
    if (call.problem.alibi == Alibi::none) call.problem.alibi = Alibi::linear;
    call.problem.heads = std::max<std::int64_t>(call.problem.heads, 2 * call.problem.heads_kv);
    call.arithmetic.dumps_unbiased_s = false;
}

const MistakeInfo score_table[] = {
    {Mistake::scaled_twice,
     "scaled_twice",
     {"scale_twice", "score_constant"},
     Stage::s,
     need_plain_scores,
     {.product = [](const Block& b, float sum, std::int64_t,
                    std::int64_t) { return sum * float(b.p.sm_scale); }}},
    {Mistake::scale_missing,
     "scale_missing",
     {"scale_missing"},
     Stage::s,
     need_plain_scores,
     {.call = [](Call& call) { call.problem.sm_scale = 1; }}},
    {Mistake::scale_inverted,
     "scale_inverted",
     {"scale_inverted"},
     Stage::s,
     need_plain_scores,
     {.call = [](Call& call) { call.problem.sm_scale = 1 / call.problem.sm_scale; }}},
    {Mistake::scale_of_padded_head_dim,
     "scale_of_padded_head_dim",
     {"scale_of_padded_head_dim", "score_constant"},
     Stage::s,
     need_padding,
     {.call = [](Call& call) { call.problem.sm_scale = 1 / std::sqrt(32.0); }}},
    {Mistake::scores_times_log2e,
     "scores_times_log2e",
     {"score_constant"},
     Stage::s,
     need_scaled_scores,
     {.product = [](const Block&, float sum, std::int64_t, std::int64_t) { return sum * log2e; }}},
    {Mistake::scores_halved,
     "scores_halved",
     {"score_constant"},
     Stage::s,
     need_scaled_scores,
     {.product = [](const Block&, float sum, std::int64_t, std::int64_t) { return sum / 2; }}},
    {Mistake::scores_times_sqrt_d,
     "scores_times_sqrt_d",
     {"score_constant", "scale_missing"},
     Stage::s,
     need_plain_scores,
     {.product = [](const Block& b, float sum, std::int64_t,
                    std::int64_t) { return sum * std::sqrt(float(b.p.head_dim)); }}},
    {Mistake::scores_times_odd_number,
     "scores_times_odd_number",
     {"score_constant"},
     Stage::s,
     need_scaled_scores,
     {.product = [](const Block&, float sum, std::int64_t, std::int64_t) { return sum * 1.0625f; }}},
    {Mistake::descale_q_missing_in_s,
     "descale_q_missing_in_s",
     {"descale_missing"},
     Stage::s,
     need_raw_fp8,
     {.call = [](Call& call) { call.inputs.side.descale_q = {}; }}},
    {Mistake::descale_k_twice_in_s,
     "descale_k_twice_in_s",
     {"descale_twice"},
     Stage::s,
     need_raw_fp8,
     {.call =
          [](Call& call) {
              for (float& value : call.inputs.side.descale_k.values) value *= value;
          }}},
    {Mistake::descale_k_of_other_head_in_s,
     "descale_k_of_other_head_in_s",
     {"descale_of_other_head"},
     Stage::s,
     need_raw_fp8,
     {.call = [](Call& call) { rotate_heads(call.inputs.side.descale_k); }}},
    {Mistake::cap_missing,
     "cap_missing",
     {"cap_missing"},
     Stage::s,
     need_cap,
     {.call = [](Call& call) { call.problem.logits_soft_cap = 0; }}},
    {Mistake::masked_before_cap,
     "masked_before_cap",
     {"cap_after_mask"},
     Stage::s,
     need_cap_and_causal,
     {.hidden = [](const Block& b, std::int64_t row,
                   std::int64_t key) { return held_score(b, -1, row, key); }}},
    {Mistake::bias_missing,
     "bias_missing",
     {"bias_missing"},
     Stage::s,
     need_bias,
     {.bias = [](const Block&, std::int64_t, std::int64_t, BiasTerms& terms) { terms.bias = 0; }}},
    {Mistake::bias_before_scale,
     "bias_before_scale",
     {"bias_before_scale"},
     Stage::s,
     need_bias_without_cap,
     {.bias = [](const Block& b, std::int64_t row, std::int64_t key,
                 BiasTerms& terms) { terms.bias *= b.scale(row, key); }}},
    {Mistake::bias_of_next_head,
     "bias_of_next_head",
     {"bias_of_other_head"},
     Stage::s,
     need_bias_of_heads,
     {.bias =
          [](const Block& b, std::int64_t row, std::int64_t key, BiasTerms& terms) {
              terms.bias = b.in.bias.at(b.id.batch, (b.id.head + 1) % b.p.heads, row, key);
          }}},
    {Mistake::alibi_times_scale,
     "alibi_times_scale",
     {"alibi_scaled"},
     Stage::s,
     need_alibi,
     {.bias = [](const Block& b, std::int64_t, std::int64_t,
                 BiasTerms& terms) { terms.slope *= float(b.p.sm_scale); }}},
    {Mistake::fp8_sum_of_scores,
     "fp8_sum_of_scores",
     {"narrow_sum"},
     Stage::s,
     need_wide_fp8_sum,
     {.call = [](Call& call) { call.arithmetic.score_sum = Sum::fp8; }}},
    {Mistake::last_tile_skipped,
     "last_tile_skipped",
     {"kv_tile_skipped"},
     Stage::s,
     need_no_mask,
     {.score = [](const Block& b,
                  float score) { return b.first_key() + b.p.block_n < b.p.seqlen_kv ? score : -infinity; }}},
    {Mistake::alibi_missing,
     "alibi_missing",
     {"alibi_missing"},
     Stage::s,
     need_alibi,
     {.bias = [](const Block&, std::int64_t, std::int64_t, BiasTerms& terms) { terms.slope = 0; }}},
    {Mistake::alibi_sign,
     "alibi_sign",
     {"alibi_sign"},
     Stage::s,
     need_alibi,
     {.bias = [](const Block&, std::int64_t, std::int64_t,
                 BiasTerms& terms) { terms.slope = -terms.slope; }}},
    {Mistake::alibi_of_other_head,
     "alibi_of_other_head",
     {"alibi_of_other_head"},
     Stage::s,
     need_alibi,
     {.call =
          [](Call& call) {
              std::vector<float>& slopes = call.inputs.side.alibi_slopes;
              std::ranges::rotate(slopes, slopes.begin() + 1);
          }}},
    {Mistake::alibi_offset,
     "alibi_offset",
     {"alibi_offset"},
     Stage::s,
     need_alibi,
     {.bias = [](const Block&, std::int64_t, std::int64_t, BiasTerms& terms) { terms.shift = 1; }}},
    {Mistake::scores_summed_in_half,
     "scores_summed_in_half",
     {"half_scores"},
     Stage::s,
     need_nothing,
     {.call = [](Call& call) { call.arithmetic.score_sum = Sum::half_fma; }}},
    {Mistake::k_slice_missing,
     "k_slice_missing",
     {"k_slice_missing"},
     Stage::s,
     need_nothing,
     {.k_operand = [](const Block&, const Tile& k) { return without_columns(k, k.cols / 4, k.cols / 2); }}},
    {Mistake::head_dim_truncated_in_s,
     "head_dim_truncated_in_s",
     {"head_dim_truncated", "k_slice_missing"},
     Stage::s,
     need_nothing,
     {.k_operand = [](const Block&, const Tile& k) { return without_columns(k, k.cols / 2, k.cols); }}},
    {Mistake::k_not_transposed,
     "k_not_transposed",
     {"k_not_transposed"},
     Stage::s,
     need_square_k,
     {.k_operand =
          [](const Block&, const Tile& k) {
              return read_with(k, [&](std::int64_t i, std::int64_t j) { return j * k.cols + i; });
          }}},
    {Mistake::k_wrong_leading_dimension,
     "k_wrong_leading_dimension",
     {"wrong_leading_dimension"},
     Stage::s,
     need_nothing,
     {.k_operand =
          [](const Block&, const Tile& k) {
              return read_with(k, [&](std::int64_t i, std::int64_t j) { return i * (k.cols - 8) + j; });
          }}},
    {Mistake::score_columns_permuted,
     "score_columns_permuted",
     {"elements_moved"},
     Stage::s,
     need_nothing,
     {.k_operand =
          [](const Block&, const Tile& k) {
              const std::int64_t whole = k.rows / 8 * 8;
              return read_with(k, [&](std::int64_t i, std::int64_t j) {
                  const std::int64_t from = i < whole ? i / 8 * 8 + i % 2 * 4 + i % 8 / 2 : i;
                  return from * k.cols + j;
              });
          }}},
    {Mistake::scores_of_tile_before,
     "scores_of_tile_before",
     {"scores_of_other_tile"},
     Stage::s,
     need_nothing,
     {.k_operand =
          [](const Block& b, const Tile& k) {
              const bool kept = b.earlier != nullptr && b.earlier->k && b.earlier->k->rows >= k.rows;
              if (!kept) return k;
              Tile before = *b.earlier->k;
              before.rows = k.rows;
              before.values.resize(k.values.size());
              return before;
          }}},
    {Mistake::first_fragment_only,
     "first_fragment_only",
     {"first_fragment_only"},
     Stage::s,
     need_wide_tiles,
     {.product = [](const Block&, float sum, std::int64_t row,
                    std::int64_t key) { return row < 16 && key < 16 ? sum : 0; }}},
    {Mistake::one_lane_only,
     "one_lane_only",
     {"one_lane_only", "periodic_columns"},
     Stage::s,
     need_nothing,
     {.product = [](const Block&, float sum, std::int64_t,
                    std::int64_t key) { return key % 4 == 0 ? sum : 0; }}},
};

}  // namespace

std::span<const MistakeInfo> score_mistakes() {
    return score_table;
}

}  // namespace tilescope::test
