// Traces of rows against the recording itself, and drift against the report's.

#include "oracle/heatmap/row_trace.h"
#include "oracle/heatmap/drift_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "oracle/heatmap/colour.h"
#include "oracle/judge/observe.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

MemoryRecording faulty(Mistake mistake, std::uint64_t seed) {
    const Problem problem = small_problem();
    return recorded(make_call(problem, seed, {}, InputKind::ramped_k), {mistake, 1, 2, -1, 2});
}

TEST(RowTrace, HoldsWhatTheRowHolds) {
    const MemoryRecording run = faulty(Mistake::none, 4);
    const RowTrace trace = trace_row(run, nullptr, one_thread(), 1, 2, 37);
    const Problem& problem = run.problem();
    const std::int64_t block = 37 / problem.block_m;
    for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc}) {
        SCOPED_TRACE(stage_info(stage).name);
        ASSERT_EQ(std::ssize(trace.stage(stage)), problem.kv_tiles());
        for (std::int64_t tile = 0; tile < problem.kv_tiles(); ++tile) {
            const TileId id{1, 2, block, tile};
            const TileShape extent = tile_extent(problem, stage, id);
            float low = infinity;
            float high = -low;
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                const float value = peek(run, stage, id, 37 % problem.block_m, col);
                low = std::min(low, value);
                high = std::max(high, value);
            }
            const TracePoint& point = trace.stage(stage)[std::size_t(tile)];
            EXPECT_TRUE(point.captured);
            EXPECT_FALSE(point.judged_bad);
            EXPECT_EQ(point.dumped_low, low);
            EXPECT_EQ(point.dumped_high, high);
            EXPECT_NEAR(point.expected_low, low, 1e-3 * (1 + std::abs(low)));
            EXPECT_LE(point.over_budget, 1);
        }
    }
    EXPECT_TRUE(trace.stage(Stage::q).empty());
}

TEST(RowTrace, ShowsWhereItGoesWrong) {
    const MemoryRecording run = faulty(Mistake::acc_not_rescaled, 4);
    const RowTrace trace = trace_row(run, nullptr, one_thread(), 1, 2, 20);
    EXPECT_FALSE(trace.stage(Stage::acc)[1].judged_bad);
    EXPECT_TRUE(trace.stage(Stage::acc)[2].judged_bad);
    EXPECT_GT(trace.stage(Stage::acc)[2].over_budget, 1);
    const RowTrace other_head = trace_row(run, nullptr, one_thread(), 1, 1, 20);
    EXPECT_FALSE(other_head.stage(Stage::acc)[2].judged_bad);
}

TEST(RowTrace, NotCapturedTilesAndNanAreSaid) {
    MemoryRecording run = faulty(Mistake::none, 4);
    run.remove_tile(Stage::m, {0, 0, 1, 3});
    poke(run, Stage::p, {0, 0, 1, 2}, 4, 7, nan);
    const RowTrace trace = trace_row(run, nullptr, one_thread(), 0, 0, 20);
    EXPECT_FALSE(trace.stage(Stage::m)[3].captured);
    EXPECT_TRUE(trace.stage(Stage::m)[2].captured);
    const TracePoint& point = trace.stage(Stage::p)[2];
    EXPECT_TRUE(point.judged_bad);
    EXPECT_TRUE(std::isinf(point.over_budget));
    EXPECT_EQ(point.kinds, flag_of(Kind::finite) | flag_of(Kind::nan));
}

TEST(RowTrace, OfTwoRecordingsIsOfTheirDifference) {
    const MemoryRecording right = faulty(Mistake::none, 4);
    const MemoryRecording wrong = faulty(Mistake::acc_not_rescaled, 4);
    const RowTrace trace = trace_row(wrong, &right, one_thread(), 1, 2, 20);
    EXPECT_FALSE(trace.stage(Stage::acc)[1].judged_bad);
    EXPECT_TRUE(trace.stage(Stage::acc)[3].judged_bad);
    EXPECT_EQ(trace.stage(Stage::m)[3].dumped_low, trace.stage(Stage::m)[3].expected_low);
}

TEST(DriftRows, AreWhatTheReportHasTheLargestOf) {
    for (const Mask mask : {Mask::none, Mask::causal}) {
        const Problem problem = small_problem(mask);
        const Inputs inputs = make_inputs(problem, InputKind::ramped_k, 9);
        const MemoryRecording run = recorded({problem, {}, inputs}, {Mistake::acc_not_rescaled, 1, 2, -1, 2});
        const Report report = judge(run, one_thread());
        std::vector<Drift> greatest(std::size_t(problem.kv_tiles()));
        for (std::int64_t batch = 0; batch < problem.batch; ++batch) {
            for (std::int64_t head = 0; head < problem.heads; ++head) {
                const DriftRows rows = drift_rows(run, batch, head, default_confidence);
                ASSERT_EQ(rows.m.rows(), problem.seqlen_q);
                ASSERT_EQ(rows.m.cols(), problem.kv_tiles());
                for (Eigen::Index tile = 0; tile < rows.m.cols(); ++tile) {
                    Drift& drift = greatest[std::size_t(tile)];
                    for (Eigen::Index row = 0; row < rows.m.rows(); ++row) {
                        // NaN, where the tile was skipped, is no maximum.
                        drift.m = std::fmax(drift.m, rows.m(row, tile));
                        drift.l = std::fmax(drift.l, rows.l(row, tile));
                        drift.acc = std::fmax(drift.acc, rows.acc(row, tile));
                    }
                }
            }
        }
        ASSERT_EQ(report.drift.size(), greatest.size());
        for (std::size_t i = 0; i < greatest.size(); ++i) {
            EXPECT_FLOAT_EQ(float(greatest[i].m), float(report.drift[i].m)) << "KV tile " << i;
            EXPECT_FLOAT_EQ(float(greatest[i].l), float(report.drift[i].l)) << "KV tile " << i;
            EXPECT_FLOAT_EQ(float(greatest[i].acc), float(report.drift[i].acc)) << "KV tile " << i;
        }
    }
}

TEST(DriftRows, OfStagesThatWereNotCapturedAreNotThere) {
    const MemoryRecording run = faulty(Mistake::none, 4);
    const DriftRows of_s = drift_rows(with_stages(run, {Stage::s, Stage::p}), 0, 0, default_confidence);
    EXPECT_TRUE(of_s.acc.array().isNaN().all());
    const DriftRows of_l = drift_rows(with_stages(run, {Stage::l}), 0, 0, default_confidence);
    EXPECT_TRUE(of_l.acc.array().isNaN().all());
    EXPECT_TRUE(of_l.m.array().isNaN().all());
    EXPECT_FALSE(of_l.l.array().isNaN().any());
}

TEST(Knee, IsWhereTheDriftLeavesWhatCameBefore) {
    const double infinite = std::numeric_limits<double>::infinity();
    EXPECT_EQ(knee_of({1e-6, 1.1e-6, 2, 2.5, 4}), 2);
    EXPECT_EQ(knee_of({1e-6, 1.1e-6, 1.3e-6}), -1);
    EXPECT_EQ(knee_of({1e-6, 1e-5, 1e-1, 1e-1}), 2);
    EXPECT_EQ(knee_of({1e-6, infinite, infinite}), 1);
    EXPECT_EQ(knee_of({}), -1);
}

TEST(ObserveTiles, ShowsThoseOfTheHeadOrTheBlock) {
    const MemoryRecording run = faulty(Mistake::none, 4);
    const Problem& problem = run.problem();
    std::int64_t tiles = 0;
    const auto count = [&](const ObservedTile& tile) {
        EXPECT_EQ(tile.context.tile.batch, 1);
        EXPECT_EQ(tile.context.tile.head, 3);
        tiles += tile.context.stage == Stage::s;
    };
    observe_tiles(run, nullptr, one_thread(), 1, 3, std::nullopt, count);
    EXPECT_EQ(tiles, problem.q_blocks() * problem.kv_tiles());
    tiles = 0;
    observe_tiles(run, nullptr, one_thread(), 1, 3, 1, count);
    EXPECT_EQ(tiles, problem.kv_tiles());
}

TEST(ObserveTiles, StopsWhenTheObserverThrows) {
    struct Stop {};
    const MemoryRecording run = faulty(Mistake::none, 4);
    const auto stop = [](const ObservedTile&) { throw Stop(); };
    EXPECT_THROW(observe_tiles(run, nullptr, one_thread(), 0, 0, std::nullopt, stop), Stop);
}

TEST(ObserveTiles, LeavesAsideWhatIsSaidOfAHeadWithNothingCaptured) {
    const MemoryRecording run = faulty(Mistake::none, 4);
    // Only another head's tile.
    const MemoryRecording recording = copy_of(run, [](Stage stage, const TileId& tile) {
        return stage == Stage::s && tile == TileId{0, 1, 0, 0};
    });
    int shown = 0;
    observe_tiles(recording, nullptr, one_thread(), 0, 0, std::nullopt,
                  [&](const ObservedTile&) { ++shown; });
    EXPECT_EQ(shown, 0);
}

}  // namespace
}  // namespace tilescope::test
