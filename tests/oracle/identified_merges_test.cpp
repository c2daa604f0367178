// Merges of lanes and splits that read other states than their own. Their output is computed here, from the honest states of
// all splits, as the mistake would have it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 307;
constexpr std::int64_t splits = 3;

/// A KV tile is a split; l is the sum of two lanes.
const MemoryRecording& split_run() {
    static const MemoryRecording run = [] {
        Problem problem = small_problem(Mask::none);
        problem.dtype_o = problem.dtype_p = Dtype::f32;
        problem.seqlen_kv = splits * problem.block_n;
        problem.kv_tiles_per_split = 1;
        problem.l_lanes = 2;
        problem.l_lane_columns = 1;
        return recorded(make_call(problem, seed));
    }();
    return run;
}

/// The state of a row of the query block after the KV tiles of a split.
struct Splits {
    TileId block;
    double at(Stage stage, std::int64_t split, std::int64_t row, std::int64_t col = 0) const {
        return double(peek(split_run(), stage, {block.batch, block.head, block.q_block, split}, row, col));
    }
    double weight(std::int64_t split, std::int64_t row) const {
        double top = -infinity;
        for (std::int64_t z = 0; z < splits; ++z) top = std::max(top, at(Stage::m, z, row));
        return std::exp(at(Stage::m, split, row) - top);
    }
    double l(std::int64_t split, std::int64_t row) const {
        return at(Stage::l, split, row, 0) + at(Stage::l, split, row, 1);
    }
};

/// What a split adds to the output of a row and column, and to what it is divided by.
struct Term {
    double acc = 0;
    double l = 0;
};
using TermOf = std::function<Term(const Splits&, std::int64_t split, std::int64_t row, std::int64_t col)>;

Term honest(const Splits& of, std::int64_t split, std::int64_t row, std::int64_t col) {
    const double weight = of.weight(split, row);
    return {weight * of.at(Stage::acc, split, row, col), weight * of.l(split, row)};
}

/// The first cause, its parameter and where it is made.
std::string found_for(const TermOf& term_of) {
    MemoryRecording recording = copy_of(split_run());
    change_stage(recording, Stage::o, [&](float o, const TileId& id, std::int64_t row, std::int64_t col) {
        if (row >= tile_extent(recording.problem(), Stage::o, id).rows) return o;
        Term sum;
        for (std::int64_t split = 0; split < splits; ++split) {
            const Term term = term_of({id}, split, row, col);
            sum.acc += term.acc;
            sum.l += term.l;
        }
        return float(sum.acc / sum.l);
    });
    const Report report = diagnosed(recording);
    if (report.diagnosis.causes.empty()) return "nothing";
    const FoundCause& cause = report.diagnosis.causes[0];
    return fmt::format("{}: {}, {}", cause.name, cause.parameters.empty() ? "" : cause.parameters[0].value,
                       cause.where);
}

TEST(IdentifiedMergeReads, TheHonestMergeIsRight) {
    EXPECT_EQ(split_run().problem().splits(), splits);
    EXPECT_EQ(found_for(honest), "nothing");
}

TEST(IdentifiedMergeReads, AccumulatorsOfAnotherRow) {
    EXPECT_EQ(found_for([](const Splits& of, std::int64_t split, std::int64_t row, std::int64_t col) {
                  Term term = honest(of, split, row, col);
                  if (col % 4 == 1)
                      term.acc = of.weight(split, row) * of.at(Stage::acc, split, row / 4 * 4, col);
                  return term;
              }),
              "formula: acc[b, h, i / 4 * 4, e].after(min((z + 1) * 1 * block_n, seqlen_kv) - 1) / l_of "
              "where l_of > "
              "0.0 else 0.0, where e % 4 == 1");
}

TEST(IdentifiedMergeReads, AccumulatorsOfOneSplit) {
    EXPECT_EQ(
        found_for([](const Splits& of, std::int64_t split, std::int64_t row, std::int64_t col) {
            Term term = honest(of, split, row, col);
            term.acc = of.weight(split, row) * of.at(Stage::acc, 0, row, col);
            return term;
        }),
        "formula: acc.after(min((0 + 1) * 1 * block_n, seqlen_kv) - 1) / l_of where l_of > 0.0 else 0.0, "
        "everywhere");
}

/// As where each split stores its output and its lse, and the lse of another split weighs it.
TEST(IdentifiedMergeReads, LogarithmsOfOtherSplits) {
    EXPECT_EQ(found_for([](const Splits& of, std::int64_t split, std::int64_t row, std::int64_t col) {
                  const std::int64_t other = std::min<std::int64_t>(split, 1);
                  const double weight = of.weight(other, row) * of.l(other, row);
                  return Term{weight * of.at(Stage::acc, split, row, col) / of.l(split, row), weight};
              }),
              "formula: m_of[b, h, min(z, splits - 2), i] + log(l_of[b, h, min(z, splits - 2), i]) where "
              "l_of[b, h, min(z, splits - 2), i] > 0.0 else -inf, for o alone, everywhere");
}

TEST(IdentifiedMergeReads, LanesThatAreLeftOut) {
    EXPECT_EQ(found_for([](const Splits& of, std::int64_t split, std::int64_t row, std::int64_t col) {
                  Term term = honest(of, split, row, col);
                  if (row % 2 == 1) term.l -= of.weight(split, row) * of.at(Stage::l, split, row, 0);
                  return term;
              }),
              "formula: sum(w: l.after(min((z + 1) * 1 * block_n, seqlen_kv) - 1) where w >= 1 else 0.0), "
              "where i % 2 "
              "== 1");
}

}  // namespace
}  // namespace tilescope::test
