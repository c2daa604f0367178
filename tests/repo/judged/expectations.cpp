// A test of another project that asks the oracle itself: one row of a softmax over one key is v.

#include "oracle/gtest.h"

TEST(Attention, OfOneKeyIsItsValue) {
    tilescope::Problem problem;
    problem.head_dim = problem.head_dim_v = 2;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = tilescope::Dtype::f32;
    const float q[] = {1, 2};
    const float k[] = {3, 4};
    const float v[] = {5, 6};
    const float wrong[] = {5, 7};
    EXPECT_ATTENTION(problem, q, k, v, v);
    EXPECT_FALSE(tilescope::is_attention(problem, q, k, v, wrong));
    EXPECT_THAT(SAMPLES "/healthy_scalar.h5", tilescope::MatchesOracle());
    EXPECT_THAT(SAMPLES "/acc_not_rescaled.h5", testing::Not(tilescope::MatchesOracle()));
}
