// Mistakes that kernels of many authors have, told from little that was recorded.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 53001;
using Titles = std::vector<std::string>;

Titles named(const Recording& recording) {
    Titles titles;
    for (const FoundCause& cause : first_causes(diagnosed(recording))) titles.push_back(title_of(cause));
    return titles;
}

Titles named_from_outputs(const Problem& problem, Mistake mistake, InputKind kind = InputKind::normal) {
    return named(
        with_stages(recorded(make_call(problem, seed, {}, kind), {mistake}), {Stage::o, Stage::lse}));
}

TEST(CausesOfOutputs, KAndVOfAnotherHead) {
    EXPECT_EQ(
        named_from_outputs(small_problem(Mask::none), Mistake::kv_head_modulo),
        Titles{"kv_head_modulo (s sum(d: Q * K[b, h % group, j, d]) * 0.25; acc acc * rescale + sum(j: p * "
               "V[b, h % group, j, e]))"});
}

/// A kernel with a mask of its own beside `mask`, by the bias of another call.
MemoryRecording recorded_with_hidden(const std::function<bool(std::int64_t row, std::int64_t key)>& is_hidden,
                                     Problem problem, Mask mask) {
    Call call = make_call(problem, seed);
    const Problem& p = call.problem;
    std::vector<float> bias(std::size_t(p.seqlen_q * p.seqlen_kv), 0);
    for (std::int64_t row = 0; row < p.seqlen_q; ++row)
        for (std::int64_t key = 0; key < p.seqlen_kv; ++key)
            if (is_hidden(row, key)) bias[std::size_t(row * p.seqlen_kv + key)] = -infinity;
    const Inputs without = call.inputs;
    call.inputs.bias = {1, 1, p.seqlen_q, p.seqlen_kv, std::move(bias)};
    call.problem.window_left = -1;
    call.problem.mask = mask;
    const MemoryRecording run = recorded(call);
    return declared_as(with_stages(run, {Stage::m, Stage::l, Stage::acc, Stage::o}), problem, run.units(),
                       without);
}

TEST(CausesOfOutputs, HalfOfTheKeysOfEachTile) {
    const MemoryRecording recording = recorded_with_hidden(
        [](std::int64_t, std::int64_t key) { return key % 16 >= 8; }, small_problem(Mask::none), Mask::none);
    const Titles hidden = {
        "mask_elsewhere (s sum(d: Q * K) * 0.25 where j % block_n < block_n / 2 else -inf)"};
    EXPECT_EQ(named(recording), hidden);
    EXPECT_EQ(named(with_stages(recording, {Stage::o})), hidden);
}

TEST(CausesOfOutputs, AWindowThatSkipsTilesAndMasksNothing) {
    Problem problem = small_problem(Mask::causal);
    problem.window_left = 11;
    const std::int64_t diagonal = problem.seqlen_kv - problem.seqlen_q;
    const MemoryRecording recording = recorded_with_hidden(
        [=](std::int64_t row, std::int64_t key) { return key / 16 < (row / 16 * 16 + diagonal - 11) / 16; },
        problem, Mask::causal);
    EXPECT_EQ(
        named(with_stages(recording, {Stage::o})),
        Titles{
            "formula (s sum(d: Q * K) * 0.25 where j <= i + seqlen_kv - seqlen_q and j / block_n * block_n "
            "+ (block_n - 1) >= i / block_m * block_m + seqlen_kv - seqlen_q - 11 else -inf)"});
}

TEST(CausesOfOutputs, MasksByThePlacesInTheTile) {
    const MemoryRecording recording =
        recorded_with_hidden([](std::int64_t row, std::int64_t key) { return key % 16 > row % 16; },
                             small_problem(Mask::causal), Mask::none);
    EXPECT_EQ(named(with_stages(recording, {Stage::o})),
              Titles{"mask_tile_local (s sum(d: Q * K) * 0.25 where j % block_n <= i % block_m else -inf)"});
}

/// The output of a kernel that takes V of the next tile, zeros behind its end, where there is one.
MemoryRecording recorded_with_next_v(const std::function<bool(std::int64_t key)>& is_next) {
    const Problem problem = small_problem(Mask::none);
    Call call = make_call(problem, seed);
    const Inputs own = call.inputs;
    const std::int64_t cols = problem.head_dim_v;
    const std::int64_t heads = problem.batch * problem.heads_kv;
    for (std::int64_t at = 0; at < heads * problem.seqlen_kv; ++at) {
        const std::int64_t key = at % problem.seqlen_kv;
        if (!is_next(key)) continue;
        const bool is_there = key + 16 < problem.seqlen_kv;
        for (std::int64_t d = 0; d < cols; ++d)
            call.inputs.v[std::size_t(at * cols + d)] =
                is_there ? own.v[std::size_t((at + 16) * cols + d)] : 0.0F;
    }
    const MemoryRecording run = recorded(call);
    return declared_as(with_stages(run, {Stage::o}), problem, run.units(), own);
}

TEST(CausesOfOutputs, VIsTheNextTileAlready) {
    const std::int64_t seqlen_kv = small_problem(Mask::none).seqlen_kv;
    const MemoryRecording recording =
        recorded_with_next_v([=](std::int64_t key) { return key / 16 < (seqlen_kv - 1) / 16; });
    EXPECT_EQ(
        named(recording),
        Titles{"other_kv_tile (acc acc * rescale + sum(j: p * ((V[b, h / group, j + block_n, e] where j + "
               "block_n < seqlen_kv else 0.0) where j / block_n < (seqlen_kv - 1) / block_n else V)))"});
}

TEST(CausesOfOutputs, HalfOfVIsTheNextTileAlready) {
    const std::int64_t seqlen_kv = small_problem(Mask::none).seqlen_kv;
    const MemoryRecording recording =
        recorded_with_next_v([=](std::int64_t key) { return key % 16 < 8 && key + 16 < seqlen_kv; });
    EXPECT_EQ(
        named(recording),
        Titles{"operand_addresses (acc acc * rescale + sum(j: p * V[b, h / group, j + block_n where j % "
               "block_n < block_n / 2 and j + block_n < seqlen_kv else j, e]))"});
}

TEST(CausesOfOutputs, MaximaOfThePersistentBlockBefore) {
    Problem problem = small_problem(Mask::none);
    problem.batch = 1;
    MemoryRecording recording = with_stages(recorded(make_call(problem, seed)), {Stage::s, Stage::m});
    const std::int64_t blocks = problem.q_blocks();
    std::map<std::int64_t, std::vector<float>> kept;
    for (std::int64_t at = 0; at < problem.heads * blocks; ++at) {
        std::vector<float>& state = kept[at % 4];
        if (state.empty()) state.assign(std::size_t(problem.block_m), -infinity);
        for (TileId tile{0, at / blocks, at % blocks, 0}; tile.kv_tile < problem.kv_tiles(); ++tile.kv_tile) {
            std::vector<float> m(state.size());
            ASSERT_TRUE(recording.read_tile(Stage::m, tile, {m.data(), m.size()}));
            for (std::size_t i = 0; i < m.size(); ++i) m[i] = state[i] = std::max(m[i], state[i]);
            recording.set_tile(Stage::m, tile, m);
        }
    }
    EXPECT_EQ(named(recording),
              Titles{"starts_with_what_was_left (value the state after the query block 4 before)"});
}

/// Every other row has negative scores alone: as integers, none of them is above the first number.
TEST(CausesOfOutputs, MaximaOfBits) {
    Call call = make_call(small_problem(Mask::none), seed);
    const Problem& p = call.problem;
    call.inputs.bias = {1, 1, p.seqlen_q, 1, std::vector<float>(std::size_t(p.seqlen_q), 0)};
    for (std::int64_t row = 1; row < p.seqlen_q; row += 2) call.inputs.bias.values[std::size_t(row)] = -40;
    call.arithmetic.dumps_unbiased_s = false;
    MemoryRecording recording = with_stages(recorded(call), {Stage::s, Stage::m});
    const float first = -std::numeric_limits<float>::max();
    change_stage(recording, Stage::m, [&](float own, const TileId& tile, std::int64_t row, auto...) {
        return (tile.q_block * p.block_m + row) % 2 == 1 ? first : std::max(own, 0.0F) > 0 ? own : first;
    });
    EXPECT_EQ(named(recording), Titles{"max_of_bits (start -3.40282e+38)"});
}

TEST(CausesOfOutputs, KeysBehindTheLastOne) {
    const Problem problem = small_problem(Mask::none);
    EXPECT_EQ(named_from_outputs(problem, Mistake::tail_of_zeros),
              Titles{"tail_not_masked (they are zeros)"});
    EXPECT_EQ(named_from_outputs(problem, Mistake::tail_stale),
              Titles{"tail_not_masked (they are rows of the tile before)"});
}

/// The sums count P of the keys behind the last one, and V of them.
TEST(CausesOfOutputs, ATailInBothSumsIsOneMistake) {
    MemoryRecording run = recorded(make_call(small_problem(Mask::none), seed), {Mistake::tail_stale});
    const Report report = diagnosed(with_stages(run, {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc}));
    for (const StageAnswer& answer : report.diagnosis.answers)
        EXPECT_NE(answer.kind, AnswerKind::unexplained) << stage_info(answer.stage).name;
}

/// Where arrays are filled before and stored whole.
TEST(CausesOfOutputs, ATileThatNoThreadWroteWasSkipped) {
    Call call = make_call(small_problem(Mask::none), seed);
    const Problem& p = call.problem;
    constexpr Stage stages[] = {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse};
    MemoryRecording recording = with_stages(recorded(call), {std::begin(stages), std::end(stages)});
    const std::int64_t last = p.kv_tiles() - 1;
    call.inputs.bias = {1, 1, 1, p.seqlen_kv, std::vector<float>(std::size_t(p.seqlen_kv), 0)};
    std::fill(call.inputs.bias.values.begin() + last * p.block_n, call.inputs.bias.values.end(), -infinity);
    const MemoryRecording without = recorded(call);
    for (const Stage stage : stages) {
        std::vector<float> values(std::size_t(tile_shape(p, stage).elements()));
        change_stage(recording, stage,
                     [&](float own, const TileId& tile, std::int64_t row, std::int64_t col) {
                         if (!is_output(stage))
                             return tile.kv_tile == last ? std::bit_cast<float>(unwritten_bits) : own;
                         without.read_tile(stage, tile, {values.data(), values.size()});
                         return values[std::size_t(row * tile_shape(p, stage).cols + col)];
                     });
    }
    const Report report = diagnosed(recording);
    EXPECT_EQ(report.guilty, Stage::s);
    EXPECT_EQ(title_of(first_causes(report).at(0)), "kv_tile_skipped (which the last)");
    for (const StageAnswer& answer : report.diagnosis.answers)
        EXPECT_EQ(answer.cause, "kv_tile_skipped") << stage_info(answer.stage).name;
}

TEST(CausesOfOutputs, OutputsOfHeadsThatAreNeverComputed) {
    MemoryRecording recording = with_stages(recorded(make_call(small_problem(Mask::none), seed)), {Stage::o});
    change_stage(recording, Stage::o,
                 [](float own, const TileId& tile, auto...) { return tile.head == 3 ? 0 : own; });
    const Report report = diagnosed(recording);
    EXPECT_EQ(title_of(first_causes(report).at(0)), "rows_uncovered (left 0)");
    EXPECT_EQ(first_causes(report).at(0).where, "head 3");
}

}  // namespace
}  // namespace tilescope::test
