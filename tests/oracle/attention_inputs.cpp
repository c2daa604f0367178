#include "tests/oracle/attention_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/oracle/draws.h"

namespace tilescope::test {

namespace {

double ramp(const Problem& problem, std::int64_t key) {
    return 0.25 + 2.0 * double(key) / double(problem.seqlen_kv);
}

double q_value(InputKind kind, Random& random) {
    switch (kind) {
        case InputKind::normal:
            return normal(random);
        case InputKind::ramped_k:
            return std::abs(normal(random));
        case InputKind::large:
            return 20 * normal(random);
        case InputKind::negative:
            return 120 + normal(random);
        case InputKind::ties:
            return double(between(random, -1, 1));
        case InputKind::tiny:
            return 1e-3 * normal(random);
        case InputKind::falling_k:
            return std::abs(normal(random));
        case InputKind::huge:
            return 120 + normal(random);
        case InputKind::repeated_keys:
            return normal(random);
    }
    return 0;
}

double k_value(const Problem& problem, InputKind kind, std::int64_t key, Random& random) {
    switch (kind) {
        case InputKind::ramped_k:
            return ramp(problem, key) * (1 + 0.05 * normal(random));
        case InputKind::negative:
            return -(600 + normal(random));
        case InputKind::falling_k:
            return (2.5 - ramp(problem, key)) * (1 + 0.05 * normal(random));
        case InputKind::huge:
            return 600 + normal(random);
        default:
            return q_value(kind, random);
    }
}

double v_value(InputKind kind, std::int64_t head, std::int64_t column, Random& random) {
    switch (kind) {
        case InputKind::normal:
            return normal(random);
        case InputKind::ties:
            return double(between(random, 1, 3));
        default:
            return 0.5 + 0.25 * double(head) + 0.01 * double(column) + 0.3 * normal(random);
    }
}

double dout_value(DoutKind kind, std::int64_t row, std::int64_t huge_row, Random& random) {
    switch (kind) {
        case DoutKind::normal:
            return normal(random);
        case DoutKind::large:
            return 30 * normal(random);
        case DoutKind::small:
            return 1e-3 * normal(random);
        case DoutKind::with_mean:
            return 0.5 + 0.3 * normal(random);
        case DoutKind::huge_row:
            return (row == huge_row ? 300 : 1) * normal(random);
        case DoutKind::constant:
            return 0.75;
        case DoutKind::zero:
            return 0;
        case DoutKind::sparse:
            return one_in(random, 10) ? normal(random) : 0;
    }
    return 0;
}

/// Every row of a KV head three times in a row.
void repeat_rows(const Problem& problem, std::int64_t cols, std::vector<float>& values) {
    for (std::int64_t row = 0; row < problem.batch * problem.heads_kv * problem.seqlen_kv; ++row) {
        const std::int64_t key = row % problem.seqlen_kv;
        std::copy_n(values.begin() + (row - key % 3) * cols, cols, values.begin() + row * cols);
    }
}

}  // namespace

std::string_view to_string(InputKind kind) {
    constexpr std::array<std::string_view, input_kinds> names = {
        "normal", "ramped_k", "large", "negative", "ties", "tiny", "falling_k", "huge", "repeated_keys"};
    return names[static_cast<std::size_t>(kind)];
}

Inputs make_inputs(const Problem& problem, InputKind kind, std::uint64_t seed) {
    Random random(seed);
    Inputs inputs;
    for (std::int64_t i = 0; i < problem.batch * problem.heads * problem.seqlen_q * problem.head_dim; ++i)
        inputs.q.push_back(rounded(problem.dtype_q, q_value(kind, random), Overflow::saturate));
    for (std::int64_t row = 0; row < problem.batch * problem.heads_kv * problem.seqlen_kv; ++row) {
        const std::int64_t key = row % problem.seqlen_kv;
        const std::int64_t head = row / problem.seqlen_kv % problem.heads_kv;
        for (std::int64_t d = 0; d < problem.head_dim; ++d)
            inputs.k.push_back(
                rounded(problem.dtype_k, k_value(problem, kind, key, random), Overflow::saturate));
        for (std::int64_t d = 0; d < problem.head_dim_v; ++d)
            inputs.v.push_back(rounded(problem.dtype_v, v_value(kind, head, d, random), Overflow::saturate));
    }
    if (kind == InputKind::repeated_keys) {
        repeat_rows(problem, problem.head_dim, inputs.k);
        repeat_rows(problem, problem.head_dim_v, inputs.v);
    }
    return inputs;
}

std::vector<float> make_dout(const Problem& p, DoutKind kind, std::uint64_t seed) {
    Random random(seed * 48271u + 29);
    const std::int64_t huge_row = std::int64_t(random() % std::uint64_t(p.seqlen_q));
    std::vector<float> dout;
    for (std::int64_t row = 0; row < p.batch * p.heads * p.seqlen_q; ++row) {
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const double value = dout_value(kind, row % p.seqlen_q, huge_row, random);
            dout.push_back(rounded(p.dtype_dout, value));
        }
    }
    return dout;
}

void add_slopes_and_sinks(const Problem& problem, std::uint64_t seed, Inputs& inputs) {
    Random random(seed * 7919u + 5);
    if (problem.alibi != Alibi::none) {
        const std::int64_t entries = between(random, 0, 1) == 1 ? problem.batch : 1;
        for (std::int64_t i = 0; i < entries * problem.heads; ++i)
            inputs.side.alibi_slopes.push_back(
                float(std::exp2(-double(between(random, 1, 8))) * (1 + 0.1 * normal(random))));
    }
    if (problem.sink == AttentionSink::none) return;
    for (std::int64_t i = 0; i < problem.heads; ++i)
        inputs.side.sink.push_back(float(1 + 2 * normal(random)));
}

Descale make_descale(const Problem& problem, std::int64_t heads, std::int64_t blocks, std::int64_t rows,
                     std::uint64_t seed) {
    Random random(seed * 104729u + 11);
    Descale descale{heads, blocks, rows, {}};
    const std::int64_t count = heads == 0 ? 1 : problem.batch * heads * blocks;
    for (std::int64_t i = 0; i < count; ++i)
        descale.values.push_back(std::exp2(std::uniform_real_distribution<float>(-1, 1)(random)));
    return descale;
}

void fill_bias(double hidden, std::uint64_t seed, Bias& bias) {
    Random random(seed * 15485863u + 3);
    for (std::int64_t i = 0; i < bias.batch * bias.heads * bias.seqlen_q * bias.seqlen_kv; ++i) {
        const bool hides = std::bernoulli_distribution(hidden)(random);
        bias.values.push_back(hides ? -std::numeric_limits<float>::infinity() : float(normal(random)));
    }
}

Problem random_problem(std::uint64_t seed) {
    Random random(seed * 2654435761u + 17);
    Problem p;
    p.batch = pick(random, {1, 1, 2});
    p.heads_kv = pick(random, {1, 1, 2});
    p.heads = p.heads_kv * pick(random, {1, 1, 2, 5});
    p.seqlen_q = between(random, 1, 40);
    p.seqlen_kv = between(random, 1, 90);
    p.head_dim = pick(random, {16, 32, 64, 128});
    p.head_dim_v = pick<std::int64_t>(random, {p.head_dim, p.head_dim, 16, 24});
    p.block_m = pick(random, {8, 16});
    p.block_n = pick(random, {8, 16, 32, 64});
    p.sm_scale = double(float(pick(random, {0, 1, 2}) == 0 ? 0.1 : 1 / std::sqrt(double(p.head_dim))));
    p.mask = pick(random, {0, 1, 1}) == 1 ? Mask::causal : Mask::none;
    p.causal_alignment =
        pick(random, {0, 1}) == 1 ? CausalAlignment::top_left : CausalAlignment::bottom_right;
    if (pick(random, {0, 0, 1}) == 1) p.window_left = between(random, 0, 30);
    if (pick(random, {0, 0, 0, 1}) == 1) p.window_right = between(random, 0, 30);
    p.dtype_o = pick(random, {0, 0, 1}) == 1 ? Dtype::f32 : Dtype::f16;
    return p;
}

Problem small_problem(Mask mask, Direction direction) {
    Problem p;
    p.direction = direction;
    p.batch = 2;
    p.heads = 4;
    p.heads_kv = 2;
    p.seqlen_q = 40;
    p.seqlen_kv = 72;
    p.head_dim = p.head_dim_v = 16;
    p.block_m = p.block_n = 16;
    p.sm_scale = 0.25;
    p.mask = mask;
    return p;
}

Problem small_problem_of_floats(Mask mask) {
    Problem problem = small_problem(mask);
    problem.dtype_o = Dtype::f32;
    return problem;
}

std::string describe(const Problem& p) {
    return fmt::format(
        "batch {} heads {}/{} seqlen {}x{} head_dim {}/{} tile {}x{} sm_scale {} mask {} alignment {} window "
        "{},{} bounds {} cap {} alibi {} sink {} split {} l lanes {}x{} q {} k {} v {} p {} acc {} o {}",
        p.batch, p.heads, p.heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim, p.head_dim_v, p.block_m, p.block_n,
        p.sm_scale, int(p.mask), int(p.causal_alignment), p.window_left, p.window_right, int(p.window_bounds),
        p.logits_soft_cap, int(p.alibi), int(p.sink), p.kv_tiles_per_split, p.l_lanes, p.l_lane_columns,
        dtype_info(p.dtype_q).name, dtype_info(p.dtype_k).name, dtype_info(p.dtype_v).name,
        dtype_info(p.dtype_p).name, dtype_info(p.dtype_acc).name, dtype_info(p.dtype_o).name);
}

}  // namespace tilescope::test
