// Histories of output elements against the recording itself, what explain_tolerance() says, and planted faults.

#include "oracle/heatmap/pixel_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "oracle/explain/explain.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

using MomentKind = HistoryMoment::Kind;

MemoryRecording faulty(Mistake mistake) {
    return recorded(make_call(small_problem(), 4, {}, InputKind::ramped_k), {mistake, 1, 2, -1, 2});
}

MemoryRecording backward_run() {
    return recorded(make_call(small_problem(Mask::causal, Direction::backward), 6));
}

PixelHistory history_of(const Recording& run, const HistoryPlace& place) {
    return pixel_history(run, nullptr, one_thread(), place);
}

std::vector<const HistoryMoment*> tiles_of(const PixelHistory& history) {
    std::vector<const HistoryMoment*> tiles;
    for (const HistoryMoment& moment : history.moments)
        if (moment.kind == MomentKind::tile) tiles.push_back(&moment);
    return tiles;
}
// They would be gone.
std::vector<const HistoryMoment*> tiles_of(PixelHistory&&) = delete;

const HistoryStep& step_of(const HistoryMoment& moment, Stage stage) {
    return *std::ranges::find(moment.steps, stage, &HistoryStep::stage);
}

std::string name_of(const PixelHistory::Index& index, const PixelHistory& history) {
    const HistoryMoment& moment = history.moments[index.moment];
    const std::string name(stage_info(moment.steps[index.step].stage).name);
    return moment.kind == MomentKind::tile ? name + " " + std::to_string(moment.tile.kv_tile) : name;
}

std::string first_wrong(const PixelHistory& history) {
    const auto index = history.first_wrong();
    return index ? name_of(*index, history) : "none";
}

/// Every element shown is what the file holds, and judged as one element alone is.
void expect_explained(const Recording& run, const PixelHistory& history, std::set<Stage>& seen) {
    for (const HistoryMoment& moment : history.moments) {
        for (const HistoryStep& step : moment.steps) {
            if (!step.element) continue;
            const Element& element = *step.element;
            SCOPED_TRACE(std::string(stage_info(step.stage).name) + " of KV tile " +
                         std::to_string(element.tile.kv_tile));
            const Element alone =
                explain_tolerance(run, {step.stage, element.tile, element.row, element.col}).element;
            EXPECT_EQ(element.got, alone.got);
            EXPECT_NEAR(element.expected, alone.expected, 1e-9 * std::abs(alone.expected));
            EXPECT_NEAR(element.tolerance, alone.tolerance, 1e-6 * alone.tolerance);
            EXPECT_EQ(step.state == StepState::wrong,
                      !(std::abs(alone.got - alone.expected) <= alone.tolerance));
            seen.insert(step.stage);
        }
    }
}

TEST(PixelHistory, HoldsWhatIsSaidOfEachElementAlone) {
    std::set<Stage> seen;
    for (const Mistake mistake : {Mistake::none, Mistake::acc_not_rescaled, Mistake::stale_k_tile}) {
        const MemoryRecording run = faulty(mistake);
        expect_explained(run, history_of(run, {1, 2, false, 37, 3, {}}), seen);
        expect_explained(run, history_of(run, {1, 2, false, 20, 0, 17}), seen);
    }
    EXPECT_EQ(seen, (std::set{Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l,
                              Stage::acc, Stage::o, Stage::lse}));
}

TEST(PixelHistory, HoldsTheSameOfABackwardPass) {
    const MemoryRecording run = backward_run();
    std::set<Stage> seen;
    expect_explained(run, history_of(run, {1, 2, false, 37, 3, {}}), seen);
    expect_explained(run, history_of(run, {1, 2, true, 20, 5, {}}), seen);
    EXPECT_EQ(seen, (std::set{Stage::q, Stage::k, Stage::v, Stage::s, Stage::p, Stage::dout, Stage::delta,
                              Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv}));
}

TEST(PixelHistory, GoesFromWhatIsLoadedOverTheTilesToTheOutput) {
    const MemoryRecording run = faulty(Mistake::none);
    const PixelHistory history = history_of(run, {0, 1, false, 20, 3, {}});
    ASSERT_EQ(std::ssize(history.moments), run.problem().kv_tiles() + 2);
    EXPECT_EQ(history.moments.front().kind, MomentKind::loaded);
    EXPECT_EQ(history.moments.back().kind, MomentKind::result);
    EXPECT_EQ(first_wrong(history), "none");
    for (const HistoryMoment& moment : history.moments) {
        for (const HistoryStep& step : moment.steps) {
            EXPECT_EQ(step.state, StepState::right);
            EXPECT_EQ(step.wrong + step.inherited, 0);
            EXPECT_FALSE(step.end_to_end);
        }
    }
    const Element& acc = *step_of(*tiles_of(history)[2], Stage::acc).element;
    EXPECT_EQ(acc.row, 20);
    EXPECT_EQ(acc.col, 3);
    EXPECT_EQ(float(acc.got),
              peek(run, Stage::acc, {0, 1, 20 / run.problem().block_m, 2}, 20 % run.problem().block_m, 3));
}

TEST(PixelHistory, ShowsOfARowTheKeyThatWeighsMost) {
    const MemoryRecording run = faulty(Mistake::none);
    const Problem& problem = run.problem();
    const PixelHistory history = history_of(run, {0, 1, false, 20, 3, {}});
    for (const HistoryMoment* moment : tiles_of(history)) {
        const std::int64_t keys = tile_extent(problem, Stage::p, moment->tile).cols;
        std::int64_t heaviest = 0;
        const auto p = [&](std::int64_t key) {
            return peek(run, Stage::p, moment->tile, 20 % problem.block_m, key);
        };
        for (std::int64_t key = 1; key < keys; ++key)
            if (p(key) > p(heaviest)) heaviest = key;
        const std::int64_t key = moment->tile.kv_tile * problem.block_n + heaviest;
        EXPECT_EQ(step_of(*moment, Stage::s).element->col, key);
        EXPECT_EQ(step_of(*moment, Stage::p).element->col, key);
        EXPECT_EQ(step_of(*moment, Stage::v).element->row, key);
        EXPECT_EQ(step_of(*moment, Stage::v).element->col, 3);
    }
}

TEST(PixelHistory, MarksTheFirstWrongStepAndWhatInheritsIt) {
    const MemoryRecording run = faulty(Mistake::acc_not_rescaled);
    const PixelHistory history = history_of(run, {1, 2, false, 20, 3, {}});
    EXPECT_EQ(first_wrong(history), "acc 2");
    EXPECT_FALSE(history.first_wrong(std::array{Stage::acc}));
    const HistoryStep& o = step_of(history.moments.back(), Stage::o);
    EXPECT_EQ(o.state, StepState::inherited);
    // What an untouched kernel stores there.
    const MemoryRecording healthy = faulty(Mistake::none);
    const TileId block{1, 2, 20 / run.problem().block_m, 0};
    const double right = peek(healthy, Stage::o, block, 20 % run.problem().block_m, 3);
    ASSERT_TRUE(o.end_to_end);
    EXPECT_NEAR(o.end_to_end->expected, right, 1e-3 * (1 + std::abs(right)));
    EXPECT_GT(std::abs(o.element->got - right), o.end_to_end->tolerance);
    EXPECT_EQ(first_wrong(history_of(run, {1, 1, false, 20, 3, {}})), "none");
    EXPECT_EQ(first_wrong(history_of(faulty(Mistake::stale_k_tile), {1, 2, false, 20, 3, {}})), "k 2");
}

TEST(PixelHistory, ShowsTheWorstKeyUnlessAnotherIsAskedFor) {
    MemoryRecording run = faulty(Mistake::none);
    const Problem& problem = run.problem();
    const TileId tile{0, 0, 1, 2};
    const std::int64_t row = problem.block_m + 4;
    poke(run, Stage::p, tile, 4, 7, nan);
    poke(run, Stage::p, tile, 4, 9, 3);
    const std::int64_t first_key = 2 * problem.block_n;
    const PixelHistory of_row = history_of(run, {0, 0, false, row, 0, {}});
    const HistoryStep& worst = step_of(*tiles_of(of_row)[2], Stage::p);
    EXPECT_EQ(worst.element->col, first_key + 7);
    EXPECT_EQ(worst.element->finding, Finding::nan);
    EXPECT_EQ(worst.wrong, 2);
    const PixelHistory asked = history_of(run, {0, 0, false, row, 0, first_key + 5});
    const HistoryStep right = step_of(*tiles_of(asked)[2], Stage::p);
    EXPECT_EQ(right.element->col, first_key + 5);
    EXPECT_EQ(right.state, StepState::right);
    EXPECT_EQ(right.wrong, 2);
    EXPECT_EQ(first_wrong(asked), "p 2");
    // Another row of the tile.
    EXPECT_EQ(first_wrong(history_of(run, {0, 0, false, row + 1, 0, {}})), "none");
}

TEST(PixelHistory, SaysWhatWasNotRecorded) {
    MemoryRecording run = with_stages(faulty(Mistake::none), {Stage::s, Stage::l, Stage::o});
    run.remove_tile(Stage::s, {0, 0, 1, 1});
    const PixelHistory history = history_of(run, {0, 0, false, run.problem().block_m, 0, {}});
    const auto tiles = tiles_of(history);
    for (const Stage stage : {Stage::m, Stage::p, Stage::acc}) {
        EXPECT_EQ(step_of(*tiles[0], stage).state, StepState::not_recorded);
        EXPECT_FALSE(step_of(*tiles[0], stage).element);
    }
    EXPECT_EQ(step_of(*tiles[0], Stage::s).state, StepState::right);
    EXPECT_EQ(step_of(*tiles[1], Stage::s).state, StepState::not_recorded);
    EXPECT_EQ(step_of(*tiles[1], Stage::l).state, StepState::right);
    // A tile that was asked for is missing.
    run.set_capture(everything_selected());
    const PixelHistory missing = history_of(run, {0, 0, false, run.problem().block_m, 0, {}});
    EXPECT_EQ(step_of(*tiles_of(missing)[1], Stage::s).state, StepState::wrong);
    EXPECT_EQ(first_wrong(missing), "s 1");
}

TEST(PixelHistory, SaysWhatTheMaskHides) {
    const MemoryRecording run = recorded(make_call(small_problem(Mask::causal), 4));
    const PixelHistory history = history_of(run, {0, 0, false, 0, 0, {}});
    const auto tiles = tiles_of(history);
    EXPECT_EQ(step_of(*tiles.front(), Stage::s).state, StepState::right);
    EXPECT_EQ(step_of(*tiles.back(), Stage::s).state, StepState::hidden);
    EXPECT_EQ(first_wrong(history), "none");
}

TEST(PixelHistory, EndsWithTheLengthsOfABatchEntry) {
    Inputs inputs = make_inputs(small_problem(), InputKind::normal, 4);
    inputs.side.seqlens_q = {40, 18};
    inputs.side.seqlens_kv = {72, 20};
    const MemoryRecording run = recorded({small_problem(), {}, inputs});
    const PixelHistory history = history_of(run, {1, 0, false, 17, 3, {}});
    EXPECT_EQ(std::ssize(tiles_of(history)), 2);
    EXPECT_EQ(first_wrong(history), "none");
    EXPECT_TRUE(history_of(run, {1, 0, false, 18, 3, {}}).moments.empty());
    EXPECT_FALSE(history_of(run, {0, 0, false, 18, 3, {}}).moments.empty());
}

TEST(PixelHistory, FollowsTheOrderOfTheKernel) {
    Arithmetic arithmetic;
    arithmetic.kv_order = KvOrder::reverse;
    const MemoryRecording run = recorded(make_call(small_problem(), 4, arithmetic));
    const PixelHistory history = history_of(run, {0, 0, false, 20, 0, {}});
    const auto tiles = tiles_of(history);
    EXPECT_EQ(tiles.front()->tile.kv_tile, run.problem().kv_tiles() - 1);
    EXPECT_EQ(tiles.back()->tile.kv_tile, 0);
}

TEST(PixelHistory, OfDkAndDvGoesOverTheQueryBlocksOfTheirGroup) {
    MemoryRecording run = backward_run();
    const Problem& problem = run.problem();
    const std::int64_t group = problem.heads / problem.heads_kv;
    ASSERT_GT(group, 1);
    const TileId spoilt{0, group - 1, problem.q_blocks() - 1, 1};
    poke(run, Stage::ds, spoilt, 2, 3, nan);
    const PixelHistory history = history_of(run, {0, 0, true, problem.block_n + 3, 5, {}});
    const auto tiles = tiles_of(history);
    ASSERT_EQ(std::ssize(tiles), group * problem.q_blocks());
    EXPECT_EQ(tiles.back()->tile, spoilt);
    const HistoryStep& ds = step_of(*tiles.back(), Stage::ds);
    EXPECT_EQ(ds.state, StepState::wrong);
    EXPECT_EQ(ds.element->row, spoilt.q_block * problem.block_m + 2);
    EXPECT_EQ(ds.element->col, problem.block_n + 3);
    EXPECT_EQ(first_wrong(history), "ds 1");
    EXPECT_EQ(history.moments.back().steps.front().stage, Stage::dk);
    // The key beside it.
    EXPECT_EQ(first_wrong(history_of(run, {0, 0, true, problem.block_n + 4, 5, {}})).rfind("ds", 0),
              std::string::npos);
}

TEST(PixelHistory, OfTwoRecordingsIsOfTheirDifference) {
    const MemoryRecording right = faulty(Mistake::none);
    const MemoryRecording wrong = faulty(Mistake::acc_not_rescaled);
    const PixelHistory history = pixel_history(wrong, &right, one_thread(), {1, 2, false, 20, 3, {}});
    EXPECT_EQ(first_wrong(history), "acc 2");
    const TileId tile{1, 2, 20 / right.problem().block_m, 3};
    EXPECT_EQ(float(step_of(*tiles_of(history)[3], Stage::acc).element->expected),
              peek(right, Stage::acc, tile, 20 % right.problem().block_m, 3));
}

TEST(PixelHistory, StopsWhereItIsAskedTo) {
    struct Stop {};
    JudgeOptions options = one_thread();
    options.progress = [](std::int64_t, std::int64_t) { throw Stop(); };
    EXPECT_THROW(pixel_history(faulty(Mistake::none), nullptr, options, {0, 0, false, 0, 0, {}}), Stop);
}

}  // namespace
}  // namespace tilescope::test
