// Merges of partial attentions, against float64 and the float32 formulas that kernels use.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "oracle/ranks/merge_formula.h"

namespace tilescope::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Merged {
    double o = 0;
    double lse = 0;
};

/// Each a formula that a kernel uses, in float32.
Merged by_weights(float o_a, float a, float o_b, float b) {
    const float lse = std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
    return {std::exp(a - lse) * o_a + std::exp(b - lse) * o_b, lse};
}
Merged by_sigmoid(float o_a, float a, float o_b, float b) {
    const float weight = 1.0f / (1.0f + std::exp(a - b));
    const float log_sigmoid = -std::log1p(std::exp(b - a));
    return {o_a - weight * (o_a - o_b), a - log_sigmoid};
}
Merged in_base_two(float o_a, float a, float o_b, float b) {
    const float log2_e = 1.44269504f;
    const float a2 = a * log2_e;
    const float b2 = b * log2_e;
    const float most = std::max(a2, b2);
    const float sum = std::exp2(a2 - most) + std::exp2(b2 - most);
    const float lse = (most + std::log2(sum)) * 0.693147181f;
    return {(std::exp2(a2 - most) * o_a + std::exp2(b2 - most) * o_b) / sum, lse};
}

PartialRow row_of(float o, float lse) {
    Eigen::RowVectorXd values(1);
    values << double(o);
    return exact_row(values, double(lse));
}

TEST(MergeFormula, BoundsTheFormulasOfKernels) {
    constexpr unsigned seed = 11;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    double most_used = 0;
    for (int draw = 0; draw < 100000; ++draw) {
        SCOPED_TRACE("seed 11, draw " + std::to_string(draw));
        const float scale = draw % 3 == 0 ? 20.0f : 2.0f;
        const float a = scale * normal(random) + 5.0f;
        const float b = a + scale * normal(random);
        const float o_a = normal(random);
        const float o_b = normal(random);
        const PartialRow merged = merge_rows(row_of(o_a, a), row_of(o_b, b));
        const long double e_a = std::exp((long double)a - std::max(a, b));
        const long double e_b = std::exp((long double)b - std::max(a, b));
        EXPECT_NEAR(merged.o(0), double((e_a * o_a + e_b * o_b) / (e_a + e_b)), 1e-14);
        EXPECT_NEAR(merged.lse, double(std::max(a, b) + std::log(e_a + e_b)), 1e-13);
        for (const auto& formula : {by_weights, by_sigmoid, in_base_two}) {
            const Merged kernel = formula(o_a, a, o_b, b);
            if (!std::isfinite(kernel.lse)) continue;  // e^(b - a) is beyond float32
            ASSERT_LE(std::abs(kernel.o - merged.o(0)), merged.o_error(0)) << a << " " << b;
            ASSERT_LE(std::abs(kernel.lse - merged.lse), merged.lse_error) << a << " " << b;
            most_used = std::max(most_used, std::abs(kernel.o - merged.o(0)) / merged.o_error(0));
        }
    }
    // A bound that nothing comes near would tell nothing.
    EXPECT_GT(most_used, 0.02);
}

TEST(MergeFormula, TakesTheOtherSideWhereOneIsEmpty) {
    const PartialRow row = row_of(0.5f, 3.0f);
    for (const PartialRow& merged : {merge_rows(row, empty_row(1)), merge_rows(empty_row(1), row)}) {
        EXPECT_EQ(merged.o(0), 0.5);
        EXPECT_EQ(merged.lse, 3.0);
        EXPECT_EQ(merged.o_error(0), 0);
    }
    EXPECT_TRUE(merge_rows(empty_row(1), empty_row(1)).is_empty());
}

TEST(MergeFormula, EveryMistakeLeavesOtherNumbers) {
    const PartialRow a = row_of(0.75f, 2.0f);
    const PartialRow b = row_of(-0.5f, 3.3f);
    const PartialRow right = merge_rows(a, b);
    for (const MergeMistake& mistake : merge_mistakes()) {
        SCOPED_TRACE(mistake.name);
        const PartialRow wrong = merge_wrongly(a, b, 3, LogBase::e, mistake);
        const bool differs = std::abs(wrong.o(0) - right.o(0)) > right.o_error(0) ||
                             std::abs(wrong.lse - right.lse) > right.lse_error;
        EXPECT_TRUE(differs);
        EXPECT_LT(wrong.lse, infinity);
    }
}

}  // namespace
}  // namespace tilescope::test
