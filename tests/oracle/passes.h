#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {

/// A test of both passes.
class BothPasses : public ::testing::TestWithParam<Direction> {
 protected:
    static Direction direction() { return GetParam(); }
    static bool is_forward() { return GetParam() == Direction::forward; }
    static const std::vector<StageInfo>& stages() { return stages_of(GetParam()); }
};

inline std::string name_of(Direction direction) {
    return direction == Direction::forward ? "forward" : "backward";
}

/// Runs the tests of a suite, which is a BothPasses, once for each pass.
#define TILESCOPE_TEST_BOTH_PASSES(suite)                                                               \
    INSTANTIATE_TEST_SUITE_P(Passes, suite, ::testing::Values(Direction::forward, Direction::backward), \
                             [](const auto& pass) { return name_of(pass.param); })

/// What fails prints the call; its seed is all that it is made of.
inline std::string how_to_repeat(std::uint64_t seed, const Call& call) {
    const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
    return "seed " + std::to_string(seed) + ", again with TILESCOPE_ALL_SEEDS=1 and --gtest_filter='" +
           test.test_suite_name() + "." + test.name() + "': " + describe(call);
}

/// small_problem() of one batch entry, with gradients in float32.
inline Problem one_entry(Mask mask, Direction direction) {
    Problem problem = small_problem(mask, direction);
    problem.batch = 1;
    problem.dtype_dq = problem.dtype_dk = problem.dtype_dv = Dtype::f32;
    return problem;
}

/// A small call in which the mistake shows, in the arithmetic of a seed but for what hides it; of arithmetic 0
/// in the plain one.
inline Call call_that_shows(Mistake mistake, Direction direction, std::uint64_t seed,
                            std::uint64_t arithmetic_seed = 0, Mask mask = Mask::none) {
    const bool masked = mistake == Mistake::mask_off_by_one || mistake == Mistake::p_not_masked;
    Problem problem = small_problem(masked ? Mask::causal : mask, direction);
    if (mistake == Mistake::ds_without_cap) problem.logits_soft_cap = 2;
    Arithmetic arithmetic;
    if (arithmetic_seed != 0) arithmetic = random_arithmetic(problem, arithmetic_seed);
    // Scores before the mask do not show the mask, and those after it not that it is missing.
    arithmetic.dumps_unmasked_s = mistake == Mistake::p_not_masked;
    if (direction == Direction::forward) {
        // A factor of exp(0) = 1 + 2 ulp would make a forgotten rescaling visible, and yet too small to see.
        arithmetic.worst_exp = false;
        // lse to the base two is right as it is.
        arithmetic.lse_log_base = LogBase::e;
    }
    arithmetic.reversed_blocks = arithmetic.dumps_uncapped_ds = false;
    if (mistake == Mistake::dk_of_wrong_heads) arithmetic.group_in_parts = true;
    return make_call(problem, seed, arithmetic);
}

/// A kernel that stages f16(q * factor) and multiplies its scores no more, or with sm_scale 0.1 once more.
inline MemoryRecording folded(std::uint64_t seed, double factor, const Units& units, bool scaled_again) {
    Problem problem = small_problem();
    problem.sm_scale = 0.1;
    const Inputs inputs = make_inputs(problem, InputKind::normal, seed);
    Inputs staged = inputs;
    for (float& q : staged.q) q = rounded(Dtype::f16, float(q * factor));
    Problem called = problem;
    if (!scaled_again) called.sm_scale = 1;
    return declared_as(recorded({called, {}, staged}), problem, units, inputs);
}

/// The mistake in one head of one batch entry.
inline Plant planted(Mistake mistake) {
    return {mistake, 1, 2, -1, mistake == Mistake::stale_k_tile ? 2 : 0};
}

/// The head of `stage` that shows it.
inline std::int64_t planted_head(const Problem& problem, Stage stage) {
    return stage == Stage::dk || stage == Stage::dv ? problem.head_kv(2) : 2;
}

}  // namespace tilescope::test
