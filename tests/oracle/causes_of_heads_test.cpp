// Kernels that multiply whole heads at once: what goes wrong in the matrix of a head shows in every tile
// otherwise.

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 97;

struct Heads {
    Problem problem = small_problem(Mask::none);
    Inputs inputs = make_inputs(problem, InputKind::normal, seed);

    /// q k^T of two rows, scaled.
    double score(std::int64_t batch, std::int64_t head, std::int64_t row, const std::vector<float>& k) const {
        const Problem& p = problem;
        double sum = 0;
        for (std::int64_t d = 0; d < p.head_dim; ++d) {
            const std::int64_t at = ((batch * p.heads + head) * p.seqlen_q + row) * p.head_dim + d;
            sum += double(inputs.q[std::size_t(at)]) * double(k[std::size_t(d)]);
        }
        return sum * p.sm_scale;
    }

    /// Element of K, by its place in the memory of a KV head.
    float k_at(std::int64_t batch, std::int64_t head_kv, std::int64_t place) const {
        const Problem& p = problem;
        return inputs.k[std::size_t((batch * p.heads_kv + head_kv) * p.seqlen_kv * p.head_dim + place)];
    }

    std::vector<float> key(std::int64_t batch, std::int64_t head_kv, std::int64_t row) const {
        std::vector<float> values;
        for (std::int64_t d = 0; d < problem.head_dim; ++d)
            values.push_back(k_at(batch, head_kv, row * problem.head_dim + d));
        return values;
    }

    /// The recording of a kernel without tiles of q and k, with other scores.
    template <class Score>
    MemoryRecording with_scores(const Score& score_at) const {
        MemoryRecording recording =
            with_stages(recorded({problem, {}, inputs}),
                        {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse});
        change_stage(recording, Stage::s, [&](float, const TileId& tile, std::int64_t row, std::int64_t col) {
            return float(
                score_at(tile, tile.q_block * problem.block_m + row, tile.kv_tile * problem.block_n + col));
        });
        return recording;
    }
};

std::vector<std::string> named(const Recording& recording) {
    const Report report = diagnosed(recording);
    EXPECT_EQ(report.guilty, Stage::s);
    std::vector<std::string> titles;
    for (const FoundCause& cause : first_causes(report)) titles.push_back(title_of(cause));
    return titles;
}

using Titles = std::vector<std::string>;

TEST(CausesOfHeads, KThatIsTakenForItsTranspose) {
    const Heads heads;
    const Problem& p = heads.problem;
    const MemoryRecording recording =
        heads.with_scores([&](const TileId& tile, std::int64_t row, std::int64_t key) {
            std::vector<float> read;
            for (std::int64_t d = 0; d < p.head_dim; ++d)
                read.push_back(heads.k_at(tile.batch, p.head_kv(tile.head), d * p.seqlen_kv + key));
            return heads.score(tile.batch, tile.head, row, read);
        });
    EXPECT_EQ(named(recording),
              Titles{"operand_transposed (s sum(d: Q * K.flat[((b * (heads / group) + h / group) * "
                     "head_dim + d) * seqlen_kv + j]) * 0.25)"})
        << "seed " << seed;
}

/// Rows of 16 features that are multiplied as if they had 32.
TEST(CausesOfHeads, AProductOverThePaddedHeadDim) {
    const Heads heads;
    const Problem& p = heads.problem;
    const auto at = [](const std::vector<float>& memory, std::int64_t place) {
        return place < std::ssize(memory) ? double(memory[std::size_t(place)]) : 0;
    };
    const MemoryRecording recording =
        heads.with_scores([&](const TileId& tile, std::int64_t row, std::int64_t key) {
            const std::int64_t q = (tile.batch * p.heads + tile.head) * p.seqlen_q + row;
            const std::int64_t k = (tile.batch * p.heads_kv + p.head_kv(tile.head)) * p.seqlen_kv + key;
            double sum = 0;
            for (std::int64_t d = 0; d < 32; ++d)
                sum += at(heads.inputs.q, q * p.head_dim + d) * at(heads.inputs.k, k * p.head_dim + d);
            return sum * p.sm_scale;
        });
    EXPECT_EQ(named(recording), Titles{"dot_runs_on (features 32)"}) << "seed " << seed;
}

TEST(CausesOfHeads, ProductsThatAreAddedToWhatWasThere) {
    const Heads heads;
    const MemoryRecording recording = heads.with_scores(
        [&](const TileId&, std::int64_t, std::int64_t) { return std::numeric_limits<double>::quiet_NaN(); });
    EXPECT_EQ(named(recording), Titles{"accumulator_not_zeroed (starts with NaN)"}) << "seed " << seed;
}

}  // namespace
}  // namespace tilescope::test
