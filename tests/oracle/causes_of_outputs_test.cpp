// Mistakes that a kernel makes in several stages at once, told from little that was recorded.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
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
    EXPECT_EQ(named_from_outputs(small_problem(Mask::none), Mistake::kv_head_modulo),
              Titles{"kv_head_modulo (of k and v)"});
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
