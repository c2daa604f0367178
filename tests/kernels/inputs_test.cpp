#include "kernels/run/inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tilescope {
namespace {

Problem small_problem() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.seqlen_q = 19;
    problem.seqlen_kv = 37;
    problem.head_dim = problem.head_dim_v = 64;
    problem.sm_scale = 0.125;
    return problem;
}

std::vector<float> values_of(const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(std::uint16_t));
    for (std::size_t i = 0; i < values.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + i * sizeof(bits), sizeof(bits));
        values[i] = decode(Dtype::f16, bits);
    }
    return values;
}

/// FNV-1a, 64 bits.
std::uint64_t hash_of(const InputArrays& inputs) {
    std::uint64_t hash = 0xcbf29ce484222325ull;
    for (const auto* bytes : {&inputs.q, &inputs.k, &inputs.v}) {
        for (std::byte byte : *bytes) hash = (hash ^ std::uint64_t(byte)) * 0x100000001b3ull;
    }
    return hash;
}

/// Scores of head 0: [seqlen_q][seqlen_kv].
std::vector<double> scores_of(const Problem& problem, const InputArrays& inputs) {
    const std::vector<float> q = values_of(inputs.q);
    const std::vector<float> k = values_of(inputs.k);
    std::vector<double> scores;
    for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
        for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
            double product = 0;
            for (std::int64_t d = 0; d < problem.head_dim; ++d) {
                product += double(q[std::size_t(row * problem.head_dim + d)]) *
                           double(k[std::size_t(key * problem.head_dim + d)]);
            }
            scores.push_back(product * problem.sm_scale);
        }
    }
    return scores;
}

InputArrays inputs_of(const Problem& problem, const char* kind) {
    return make_inputs(problem, *find_input_kind(kind), 7);
}

// The hashes come from a Python implementation of mt19937_64, of the sum of twelve and of
// float16, whose NaN is 0x7fff, as casts of CUDA give it.
TEST(Inputs, HaveTheSameBitsOnEveryMachine) {
    const std::pair<const char*, std::uint64_t> golden[] = {
        {"random", 0xc3646c7fb56abc54ull},     {"ramped", 0xd1b3412cae1fb244ull},
        {"distinct_v", 0x6cd4ef8e35d15534ull}, {"negative", 0xd68662ac12796eb8ull},
        {"large", 0x69965ff78ee0c1a6ull},      {"ties", 0x547576a2f97eee70ull},
        {"zero_head", 0x57ccc1bf08eac611ull},  {"needle", 0x7ccbe22e8925c8c8ull},
        {"non_finite", 0x556a772c5578dbacull},
    };
    EXPECT_EQ(std::size(golden), all_input_kinds().size());
    for (const auto& [kind, hash] : golden)
        EXPECT_EQ(hash_of(inputs_of(small_problem(), kind)), hash) << kind;
}

TEST(Inputs, DependOnTheSeed) {
    const InputKind& random = *find_input_kind("random");
    EXPECT_NE(hash_of(make_inputs(small_problem(), random, 1)),
              hash_of(make_inputs(small_problem(), random, 2)));
}

TEST(Inputs, RandomIsStandardNormal) {
    Problem problem = small_problem();
    problem.seqlen_kv = 512;
    const std::vector<float> values = values_of(inputs_of(problem, "random").v);
    double sum = 0;
    double squares = 0;
    for (float value : values) {
        sum += value;
        squares += double(value) * value;
    }
    const double count = double(values.size());
    EXPECT_NEAR(sum / count, 0, 6 / std::sqrt(count));
    EXPECT_NEAR(squares / count, 1, 9 / std::sqrt(count));
}

TEST(Inputs, RampedRaisesTheRowMaximumInEveryTile) {
    for (std::int64_t head_dim : {64, 128}) {
        Problem problem = small_problem();
        problem.seqlen_kv = 1024;
        problem.head_dim = problem.head_dim_v = head_dim;
        problem.sm_scale = 1 / std::sqrt(double(head_dim));
        const std::vector<double> scores = scores_of(problem, inputs_of(problem, "ramped"));
        constexpr std::int64_t smallest_tile = 32;
        for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
            double before = -INFINITY;
            for (std::int64_t tile = 0; tile < problem.seqlen_kv; tile += smallest_tile) {
                const auto first = scores.begin() + (row * problem.seqlen_kv + tile);
                const double max = *std::max_element(first, first + smallest_tile);
                EXPECT_GT(max, before) << "row " << row << " key " << tile;
                before = max;
            }
        }
    }
}

TEST(Inputs, DistinctVDiffersByHeadAndColumn) {
    const Problem problem = small_problem();
    const std::vector<float> v = values_of(inputs_of(problem, "distinct_v").v);
    const auto mean = [&](std::int64_t head, std::int64_t column) {
        double sum = 0;
        for (std::int64_t row = 0; row < problem.seqlen_kv; ++row) {
            sum += v[std::size_t((head * problem.seqlen_kv + row) * problem.head_dim + column)];
        }
        return sum / double(problem.seqlen_kv);
    };
    EXPECT_GT(mean(0, 0), 0.5);
    EXPECT_GT(mean(0, 32), mean(0, 0) + 0.5);
    EXPECT_GT(mean(1, 0), mean(0, 0) + 0.1);
}

TEST(Inputs, NegativeKeepsScoresBelowZero) {
    for (double score : scores_of(small_problem(), inputs_of(small_problem(), "negative")))
        EXPECT_LT(score, -5);
}

TEST(Inputs, LargeReachesThirtyThousandAndStaysFiniteInHalf) {
    Problem problem = small_problem();
    problem.seqlen_q = problem.seqlen_kv = 512;
    double largest = 0;
    for (double score : scores_of(problem, inputs_of(problem, "large"))) {
        largest = std::max(largest, std::abs(score));
    }
    EXPECT_GT(largest, 25000);
    EXPECT_LT(largest, 65504);
}

TEST(Inputs, NeedleRaisesOneKeyFarAboveTheOthersFromRowEight) {
    const Problem problem = small_problem();
    const std::vector<double> scores = scores_of(problem, inputs_of(problem, "needle"));
    for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
        for (std::int64_t key = 0; key < problem.seqlen_kv; ++key) {
            if (key == 3) continue;
            const double gap = scores[std::size_t(row * problem.seqlen_kv + 3)] -
                               scores[std::size_t(row * problem.seqlen_kv + key)];
            if (row < 8) {
                EXPECT_LT(std::abs(gap), 20) << row << " " << key;
            } else {
                EXPECT_GT(gap, 120) << row << " " << key;
            }
        }
    }
}

TEST(Inputs, NonFiniteSpoilsTwoRowsOfQ) {
    const Problem problem = small_problem();
    const InputArrays inputs = inputs_of(problem, "non_finite");
    const std::vector<float> q = values_of(inputs.q);
    for (std::int64_t row = 0; row < std::int64_t(q.size()) / problem.head_dim; ++row) {
        const float first = q[std::size_t(row * problem.head_dim)];
        const std::int64_t in_head = row % problem.seqlen_q;
        EXPECT_EQ(std::isnan(first), in_head == 5) << row;
        EXPECT_EQ(std::isinf(first), in_head == 9) << row;
    }
    for (float value : values_of(inputs.k)) ASSERT_TRUE(std::isfinite(value));
}

TEST(Inputs, TiesRepeatKeys) {
    const Problem problem = small_problem();
    const InputArrays inputs = inputs_of(problem, "ties");
    const std::size_t period = 16 * std::size_t(problem.head_dim) * sizeof(std::uint16_t);
    EXPECT_EQ(std::memcmp(inputs.k.data(), inputs.k.data() + period, period), 0);
    EXPECT_NE(std::memcmp(inputs.v.data(), inputs.v.data() + period, period), 0);
}

}  // namespace
}  // namespace tilescope
