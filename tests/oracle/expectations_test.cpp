// oracle/gtest.h, with which other projects test their kernels.

#include <gtest/gtest-spi.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "dump/schema/dtype.h"
#include "oracle/gtest.h"

namespace tilescope {
namespace {

Problem causal_problem() {
    Problem problem;
    problem.heads = problem.heads_kv = 2;
    problem.seqlen_q = 24;
    problem.seqlen_kv = 40;
    problem.head_dim = problem.head_dim_v = 16;
    problem.block_m = problem.block_n = 16;
    problem.sm_scale = 0.25;
    problem.mask = Mask::causal;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = Dtype::f32;
    return problem;
}

/// Inputs, and o by its definition: softmax of the whole row in float64. `offset`: columns that the diagonal is off.
struct Attention {
    Problem p = causal_problem();
    std::vector<float> q, k, v, o;

    explicit Attention(std::int64_t offset = 0) {
        const auto numbers = [](std::int64_t count, double step) {
            std::vector<float> values;
            for (std::int64_t i = 0; i < count; ++i)
                values.push_back(float(std::sin(step * double(i + 1)) * 2));
            return values;
        };
        q = numbers(p.heads * p.seqlen_q * p.head_dim, 0.37);
        k = numbers(p.heads * p.seqlen_kv * p.head_dim, 0.73);
        v = numbers(p.heads * p.seqlen_kv * p.head_dim_v, 1.31);
        for (std::int64_t h = 0; h < p.heads; ++h)
            for (std::int64_t row = 0; row < p.seqlen_q; ++row)
                add_row(h, row, row + p.seqlen_kv - p.seqlen_q + offset);
    }

    void add_row(std::int64_t h, std::int64_t row, std::int64_t last) {
        std::vector<double> sums(std::size_t(p.head_dim_v), 0);
        double total = 0;
        for (std::int64_t key = 0; key <= last && key < p.seqlen_kv; ++key) {
            double score = 0;
            for (std::int64_t d = 0; d < p.head_dim; ++d)
                score += double(q[std::size_t((h * p.seqlen_q + row) * p.head_dim + d)]) *
                         double(k[std::size_t((h * p.seqlen_kv + key) * p.head_dim + d)]);
            const double weight = std::exp(score * p.sm_scale);
            total += weight;
            for (std::int64_t d = 0; d < p.head_dim_v; ++d)
                sums[std::size_t(d)] +=
                    weight * double(v[std::size_t((h * p.seqlen_kv + key) * p.head_dim_v + d)]);
        }
        for (const double sum : sums) o.push_back(float(sum / total));
    }
};

TEST(ExpectAttention, PassesWhatIsWithinRounding) {
    const Attention right;
    EXPECT_ATTENTION(right.p, right.q.data(), right.k.data(), right.v.data(), right.o.data());
}

TEST(ExpectAttention, TakesArraysThatLieElsewhere) {
    const Attention right;
    const Problem& p = right.p;
    // [batch][seqlen][heads][head_dim]
    std::vector<float> o(right.o.size());
    for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t row = 0; row < p.seqlen_q; ++row)
            for (std::int64_t d = 0; d < p.head_dim_v; ++d)
                o[std::size_t((row * p.heads + h) * p.head_dim_v + d)] =
                    right.o[std::size_t((h * p.seqlen_q + row) * p.head_dim_v + d)];
    EXPECT_ATTENTION(p, right.q.data(), right.k.data(), right.v.data(),
                     rows_first(o.data(), Dtype::f32, p.heads, p.seqlen_q, p.head_dim_v));
    EXPECT_FALSE(is_attention(p, right.q.data(), right.k.data(), right.v.data(), o.data()));
}

TEST(ExpectAttention, FailsWithTheReport) {
    const Attention wrong(1);
    EXPECT_NONFATAL_FAILURE(
        EXPECT_ATTENTION(wrong.p, wrong.q.data(), wrong.k.data(), wrong.v.data(), wrong.o.data()),
        "diagonal_shifted");
    EXPECT_NONFATAL_FAILURE(
        EXPECT_ATTENTION(wrong.p, wrong.q.data(), wrong.k.data(), wrong.v.data(), wrong.o.data()),
        "diverged: o is the first wrong stage");
}

TEST(ExpectAttention, FailsWhereNothingCanBeJudged) {
    const Attention right;
    const float* const none = nullptr;
    EXPECT_NONFATAL_FAILURE(EXPECT_ATTENTION(right.p, right.q.data(), none, right.v.data(), right.o.data()),
                            "input k is null");
}

TEST(MatchesOracle, JudgesFilesAndRecordings) {
    const std::string samples = TILESCOPE_SAMPLES;
    EXPECT_THAT(samples + "/healthy_scalar.h5", MatchesOracle());
    EXPECT_THAT(*open_recording(samples + "/healthy_scalar.h5"), MatchesOracle());
    EXPECT_NONFATAL_FAILURE(EXPECT_THAT(samples + "/acc_not_rescaled.h5", MatchesOracle()),
                            "cause: acc_not_rescaled in acc");
    EXPECT_NONFATAL_FAILURE(EXPECT_THAT(samples + "/no_such.h5", MatchesOracle()), "could not be judged");
}

}  // namespace
}  // namespace tilescope
