#include "tests/oracle/plants.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace tilescope::test {

namespace {

// Those of backward kernels are made in the kernel itself.
constexpr MistakeInfo pointless[] = {
    {Mistake::none, "none", {}, Stage::q},
    {Mistake::dout_of_next_block, "dout_of_next_block", {}, Stage::dout},
    {Mistake::delta_of_next_o, "delta_of_next_o", {}, Stage::delta},
    {Mistake::p_from_max, "p_from_max", {}, Stage::p},
    {Mistake::lse_base_confused, "lse_base_confused", {}, Stage::p},
    {Mistake::p_not_masked, "p_not_masked", {}, Stage::p},
    {Mistake::ds_without_delta, "ds_without_delta", {}, Stage::ds},
    {Mistake::ds_delta_of_next_row, "ds_delta_of_next_row", {}, Stage::ds},
    {Mistake::ds_without_p, "ds_without_p", {}, Stage::ds},
    {Mistake::ds_without_cap, "ds_without_cap", {}, Stage::ds},
    {Mistake::dq_not_scaled, "dq_not_scaled", {}, Stage::dq},
    {Mistake::dq_tile_lost, "dq_tile_lost", {}, Stage::dq},
    {Mistake::dk_scaled_twice, "dk_scaled_twice", {}, Stage::dk},
    {Mistake::dk_of_wrong_heads, "dk_of_wrong_heads", {}, Stage::dk},
    {Mistake::dk_without_last_block, "dk_without_last_block", {}, Stage::dk},
    {Mistake::tail_rows_counted, "tail_rows_counted", {}, Stage::dk},
    {Mistake::dv_untransposed, "dv_untransposed", {}, Stage::dv},
};

const MistakeInfo* find_in(std::span<const MistakeInfo> family, Mistake mistake) {
    const auto found = std::ranges::find(family, mistake, &MistakeInfo::mistake);
    return found == family.end() ? nullptr : &*found;
}

}  // namespace

std::span<const std::span<const MistakeInfo>> all_mistakes() {
    static const std::array families = {operand_mistakes(), score_mistakes(),       mask_mistakes(),
                                        softmax_mistakes(), accumulator_mistakes(), output_mistakes(),
                                        pattern_mistakes(), fragment_mistakes()};
    return families;
}

const MistakeInfo& mistake_info(Mistake mistake) {
    if (const MistakeInfo* found = find_in(pointless, mistake)) return *found;
    for (const auto family : all_mistakes()) {
        if (const MistakeInfo* found = find_in(family, mistake)) return *found;
    }
    throw std::invalid_argument("mistake_info: a mistake without a row in the tables of plants.h");
}

std::vector<Mistake> mistakes_of(Direction direction) {
    const bool forward = direction == Direction::forward;
    const Mistake first = forward ? Mistake::q_row_zeroed : Mistake::dout_of_next_block;
    const Mistake last = forward ? Mistake::lse_base_two : Mistake::dv_untransposed;
    std::vector<Mistake> mistakes;
    for (int i = int(first); i <= int(last); ++i) mistakes.push_back(Mistake(i));
    return mistakes;
}

std::string_view to_string(Mistake mistake) {
    return mistake_info(mistake).name;
}

Stage stage_of(Mistake mistake) {
    return mistake_info(mistake).stage;
}

void need_nothing(Call&) {}

void need_scaled_scores(Call& call) {
    const Softmax scaled[] = {Softmax::natural,      Softmax::natural_contracted,
                              Softmax::natural_exp2, Softmax::natural_fast,
                              Softmax::base_two,     Softmax::natural_with_base_two_max};
    Softmax& softmax = call.arithmetic.softmax;
    if (std::ranges::find(scaled, softmax) == std::end(scaled))
        softmax = scaled[std::size_t(softmax) % std::size(scaled)];
}

void need_plain_scores(Call& call) {
    need_scaled_scores(call);
    call.problem.logits_soft_cap = 0;
    call.problem.alibi = Alibi::none;
    call.inputs.bias = {};
}

void need_natural_softmax(Call& call) {
    call.arithmetic.softmax = Softmax::natural;
}

void need_causal(Call& call) {
    call.problem.mask = Mask::causal;
    call.problem.causal_alignment = CausalAlignment::bottom_right;
    call.arithmetic.dumps_unmasked_s = false;
}

void need_hidden_rows(Call& call) {
    need_causal(call);
    Problem& p = call.problem;
    p.seqlen_q = std::max(p.seqlen_q, p.seqlen_kv + 7);
    call.inputs.side.seqlens_q.clear();
    call.inputs.side.seqlens_kv.clear();
    call.arithmetic.skips_hidden_tiles = false;
}

void need_no_mask(Call& call) {
    Problem& p = call.problem;
    p.mask = Mask::none;
    p.window_left = p.window_right = -1;
    call.inputs.bias = {};
}

void need_groups(Call& call) {
    Problem& p = call.problem;
    p.heads_kv = std::max<std::int64_t>(p.heads_kv, 2);
    const std::int64_t group = p.heads % p.heads_kv == 0 ? p.heads / p.heads_kv : 1;
    p.heads = p.heads_kv * std::max<std::int64_t>(group, 2);
}

void need_fp8(Call& call) {
    Problem& p = call.problem;
    p.dtype_q = p.dtype_k = p.dtype_v = Dtype::e4m3;
    p.heads_kv = std::max<std::int64_t>(p.heads_kv, 2);
    p.heads = p.heads_kv * 2;
    Arithmetic& a = call.arithmetic;
    a.q = a.k = a.v = {true, Dtype::f16};
}

void need_raw_fp8(Call& call) {
    need_fp8(call);
    need_plain_scores(call);
    Arithmetic& a = call.arithmetic;
    a.q = a.k = a.v = {false, Dtype::f32};
    a.acc_dequantised = true;
}

void need_p_scale(Call& call) {
    Arithmetic& a = call.arithmetic;
    a.p_operand = Dtype::e4m3;
    a.p_scale = 256;
    a.l_scaled = false;
    a.acc_scaled = true;
    a.p_scale_in_exponent = false;
}

void need_wide_tiles(Call& call) {
    call.problem.block_m = call.problem.block_n = 32;
}

void need_batches(Call& call) {
    call.problem.batch = 2;
    call.inputs.side.seqlens_q.clear();
    call.inputs.side.seqlens_kv.clear();
}

void need_square_k(Call& call) {
    call.problem.head_dim = call.problem.block_n;
    call.problem.sm_scale = 0.25;
}

void rotate_heads(Descale& descale) {
    std::rotate(descale.values.begin(), descale.values.begin() + descale.blocks, descale.values.end());
}

}  // namespace tilescope::test
