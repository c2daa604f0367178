#include "tests/oracle/planted_calls.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/oracle/draws.h"

namespace tilescope::test {

namespace {

void set_small_window(Call& call) {
    call.problem.window_left = 5;
    call.problem.window_right = 2;
}
/// The first KV tile of most rows is hidden, and computed all the same.
void set_hidden_first_tile(Call& call) {
    call.problem.mask = Mask::causal;
    call.problem.window_left = call.problem.block_n / 2;
    call.arithmetic.skips_hidden_tiles = false;
}
void set_hidden_rows(Call& call) {
    need_hidden_rows(call);
}
void set_group_of_five(Call& call) {
    call.problem.batch = 1;
    call.problem.heads = 5;
    call.problem.heads_kv = 1;
}
void set_group_of_seven(Call& call) {
    call.problem.batch = 1;
    call.problem.heads = 7;
    call.problem.heads_kv = 1;
    call.problem.mask = Mask::causal;
}
void set_lengths(Call& call) {
    const Problem& p = call.problem;
    for (std::int64_t i = 0; i < p.batch; ++i) {
        call.inputs.side.seqlens_q.push_back(std::max<std::int64_t>(1, p.seqlen_q - 5 * i));
        call.inputs.side.seqlens_kv.push_back(std::max<std::int64_t>(1, p.seqlen_kv - 3 - 7 * i));
    }
}
void set_splits(Call& call) {
    call.problem.kv_tiles_per_split = 2;
}
void set_causal(Call& call) {
    call.problem.mask = Mask::causal;
}
void set_descales(Call& call) {
    need_fp8(call);
}
void set_bias(Call& call) {
    call.inputs.bias = {1, call.problem.heads, call.problem.seqlen_q, call.problem.seqlen_kv, {}};
    call.arithmetic.dumps_unbiased_s = false;
}
void set_cap_and_alibi(Call& call) {
    call.problem.logits_soft_cap = 5;
    call.problem.alibi = Alibi::linear;
}

/// The values of q, k and v beyond the lengths of the batch entries.
void poison_padding(float value, Call& call) {
    const Problem& p = call.problem;
    const SideInputs& side = call.inputs.side;
    const auto fill = [&](const std::vector<std::int64_t>& lengths, std::vector<float>& values,
                          std::int64_t heads, std::int64_t rows, std::int64_t cols) {
        for (std::size_t batch = 0; batch < lengths.size(); ++batch) {
            for (std::int64_t head = 0; head < heads; ++head) {
                const auto first = values.begin() + (std::int64_t(batch) * heads + head) * rows * cols;
                std::fill(first + lengths[batch] * cols, first + rows * cols, value);
            }
        }
    };
    fill(side.seqlens_q, call.inputs.q, p.heads, p.seqlen_q, p.head_dim);
    fill(side.seqlens_kv, call.inputs.k, p.heads_kv, p.seqlen_kv, p.head_dim);
    fill(side.seqlens_kv, call.inputs.v, p.heads_kv, p.seqlen_kv, p.head_dim_v);
}

/// The values of all inputs, of sizes that are set.
void fill_inputs(const PlantedInput& input, std::uint64_t seed, Call& call) {
    const Problem& p = call.problem;
    Inputs values = make_inputs(p, input.kind, seed);
    call.inputs.q = std::move(values.q);
    call.inputs.k = std::move(values.k);
    call.inputs.v = std::move(values.v);
    add_slopes_and_sinks(p, seed, call.inputs);
    // A bias that was asked for has its lengths, which are 1 otherwise.
    if (call.inputs.bias.seqlen_kv > 1) {
        Bias& bias = call.inputs.bias;
        bias = {1, p.heads, p.seqlen_q, p.seqlen_kv, {}};
        fill_bias(0, seed, bias);
    }
    if (is_fp8(p.dtype_q)) {
        call.inputs.side.descale_q = make_descale(p, p.heads, 1, p.seqlen_q, seed);
        call.inputs.side.descale_k = make_descale(p, p.heads_kv, 1, p.seqlen_kv, seed + 1);
        call.inputs.side.descale_v = make_descale(p, p.heads_kv, 1, p.seqlen_kv, seed + 2);
    }
    if (input.poison != 0) poison_padding(input.poison, call);
}

}  // namespace

std::span<const PlantedInput> planted_inputs() {
    static const PlantedInput table[] = {
        {"normal", InputKind::normal},
        {"ramped_k", InputKind::ramped_k},
        {"large", InputKind::large},
        {"negative", InputKind::negative},
        {"ties", InputKind::ties},
        {"tiny", InputKind::tiny},
        {"falling_k", InputKind::falling_k},
        {"huge", InputKind::huge},
        {"repeated_keys", InputKind::repeated_keys},
        {"causal", InputKind::normal, set_causal},
        {"small_window", InputKind::normal, set_small_window},
        {"hidden_first_tile", InputKind::ramped_k, set_hidden_first_tile},
        {"hidden_rows", InputKind::ramped_k, set_hidden_rows},
        {"group_of_five", InputKind::ramped_k, set_group_of_five},
        {"group_of_seven", InputKind::normal, set_group_of_seven},
        {"nan_in_padding", InputKind::ramped_k, set_lengths, nan},
        {"descales", InputKind::normal, set_descales},
        {"splits", InputKind::ramped_k, set_splits},
        {"cap_and_alibi", InputKind::normal, set_cap_and_alibi},
        {"bias", InputKind::normal, set_bias},
    };
    return table;
}

std::span<const PlantedShape> planted_shapes() {
    static const PlantedShape table[] = {
        {"40x65", 40, 65, 16, 16, 16, 16},
        {"70x47", 70, 47, 16, 16, 32, 24},
        {"33x100", 33, 100, 16, 32, 64, 32},
    };
    return table;
}

Call planted_call(const MistakeInfo& mistake, const PlantedInput& input, const PlantedShape& shape,
                  std::uint64_t seed) {
    Call call;
    Problem& p = call.problem;
    p.batch = 2;
    p.heads = 4;
    p.heads_kv = 2;
    p.seqlen_q = shape.seqlen_q;
    p.seqlen_kv = shape.seqlen_kv;
    p.block_m = shape.block_m;
    p.block_n = shape.block_n;
    p.head_dim = shape.head_dim;
    p.head_dim_v = shape.head_dim_v;
    p.sm_scale = double(float(1 / std::sqrt(double(p.head_dim))));
    call.arithmetic = random_arithmetic(seed);
    Random random(seed * 48271u + 7);
    p.dtype_o = pick(random, {Dtype::f16, Dtype::f32});
    // What a mask does shows in the scores.
    call.arithmetic.dumps_unmasked_s = false;
    if (input.set != nullptr) input.set(call);
    mistake.needs(call);
    fill_inputs(input, seed, call);
    return call;
}

std::optional<Stage> first_difference(const Recording& a, const Recording& b) {
    const Problem& p = a.problem();
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (std::int64_t i = 0; i < tile_count(p, info.stage); ++i) {
            const TileId id = tile_at(p, info.stage, i);
            const TileShape shape = tile_shape(p, info.stage);
            const TileShape extent = tile_extent(p, info.stage, id);
            std::vector<float> of_a(std::size_t(shape.elements()));
            std::vector<float> of_b(of_a.size());
            const bool has = a.read_tile(info.stage, id, of_a);
            if (has != b.read_tile(info.stage, id, of_b)) return info.stage;
            if (!has) continue;
            for (std::int64_t row = 0; row < extent.rows; ++row) {
                const auto bits = [&](const std::vector<float>& values, std::int64_t col) {
                    return std::bit_cast<std::uint32_t>(values[std::size_t(row * shape.cols + col)]);
                };
                for (std::int64_t col = 0; col < extent.cols; ++col) {
                    if (bits(of_a, col) != bits(of_b, col)) return info.stage;
                }
            }
        }
    }
    return std::nullopt;
}

std::vector<Stage> guilty_stages(const KernelRun& healthy, const KernelRun& planted) {
    std::vector<Stage> stages;
    for (std::size_t i = 0; i < planted.changed.size() && stages.empty(); ++i) {
        if (planted.changed[i]) stages.push_back(Stage(i));
    }
    if (const auto shown = first_difference(healthy.recording, planted.recording);
        shown && (stages.empty() || stages[0] != *shown))
        stages.push_back(*shown);
    return stages;
}

}  // namespace tilescope::test
