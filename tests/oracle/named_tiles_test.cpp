// Named tiles change no verdict alone, and are compared between two recordings.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "oracle/heatmap/row_trace.h"
#include "oracle/judge.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"
#include "tests/support/error_of.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 77;
constexpr TileId some_tile{1, 2, 1, 2};

Problem named_problem() {
    Problem problem = small_problem(Mask::none);
    problem.named_tiles = {
        {.name = "rescale"},
        {.name = "parts", .rows = Axis::unit, .cols = Axis::unit, .row_size = 2, .col_size = 3}};
    return problem;
}

/// Element i of tile n holds n + i / 100.
void set_named(MemoryRecording& recording) {
    const Problem& problem = recording.problem();
    for (int i = 0; i < std::ssize(problem.named_tiles); ++i) {
        const Stage stage = named_tile(i);
        for (std::int64_t n = 0; n < tile_count(problem, stage); ++n) {
            std::vector<float> values(std::size_t(tile_shape(problem, stage).elements()));
            for (std::size_t e = 0; e < values.size(); ++e) values[e] = float(n) + float(e) / 100;
            recording.set_tile(stage, tile_at(problem, stage, n), std::move(values));
        }
    }
}

MemoryRecording healthy(const Problem& problem = named_problem()) {
    MemoryRecording run = recorded(make_call(problem, seed));
    set_named(run);
    return run;
}

void remove_stages(MemoryRecording& recording) {
    for (const StageInfo& info : stages_of(Direction::forward)) {
        for (std::int64_t i = 0; i < tile_count(recording.problem(), info.stage); ++i)
            recording.remove_tile(info.stage, tile_at(recording.problem(), info.stage, i));
    }
}

TEST(NamedTiles, AloneAreNotJudged) {
    MemoryRecording recording = healthy();
    const std::int64_t compared = judged(recording).compared();
    poke(recording, Stage::named0, some_tile, 1, 0, nan);
    poke(recording, Stage::named1, some_tile, 1, 2, unwritten);
    CaptureSummary capture = everything_selected();
    StageCapture& rescale = capture.stages[int(Stage::named0)];
    rescale.conflicts = {{some_tile, 7}};
    rescale.dropped = {{0, 0, 0, 0}};
    rescale.elements_dropped = 4;
    rescale.elements_out_of_range = 5;
    recording.set_capture(capture);
    const Report report = judged(recording);
    EXPECT_TRUE(matches(report));
    EXPECT_EQ(report.compared(), compared);
    EXPECT_EQ(report.without_reference, (std::vector<std::string>{"rescale", "parts"}));
    const std::string text = to_text(report);
    EXPECT_NE(text.find("\nnot judged, no reference: rescale parts\n"), std::string::npos) << text;
    for (const char* warning : {"1 tiles of rescale were dropped for lack of room",
                                "7 writes of rescale changed an element already written",
                                "5 writes of rescale were outside the problem"})
        EXPECT_NE(text.find(warning), std::string::npos) << warning << "\n" << text;
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["without_reference"], (std::vector<std::string>{"rescale", "parts"}));
    EXPECT_EQ(json["stages"].size(), stages_of(Direction::forward).size());

    // They hide nothing either.
    poke(recording, Stage::acc, some_tile, 1, 0, nan);
    EXPECT_EQ(judged(recording).guilty, Stage::acc);
}

TEST(NamedTiles, NothingElseIsNoVerdict) {
    MemoryRecording recording = healthy();
    remove_stages(recording);
    try {
        judged(recording);
        FAIL();
    } catch (const NoVerdict& unjudged) {
        EXPECT_NE(std::string(unjudged.what()).find("only named tiles were captured"), std::string::npos);
        EXPECT_EQ(unjudged.report().without_reference.size(), 2u);
    }
    const Report pair = judged(recording, recording);
    EXPECT_TRUE(matches(pair));
    const Problem& p = recording.problem();
    EXPECT_EQ(pair.compared(), p.batch * p.heads * p.kv_tiles() * (p.seqlen_q + p.q_blocks() * 2 * 3));
}

TEST(NamedTiles, OneElementThatDiffersIsFound) {
    const MemoryRecording a = healthy();
    MemoryRecording b = healthy();
    EXPECT_TRUE(matches(a, b));
    EXPECT_TRUE(judged(a, b).without_reference.empty());
    std::vector<float> values(6);
    ASSERT_TRUE(a.read_tile(Stage::named1, some_tile, values));
    poke(b, Stage::named1, some_tile, 1, 2, std::nextafter(values[5], 1e9f));
    const Report report = judged(a, b);
    ASSERT_EQ(report.guilty, Stage::named1) << verdict_line(report);
    const StageTally& tally = report.stage(Stage::named1).tally;
    EXPECT_EQ(tally.outside, 1);
    EXPECT_EQ(tally.max_ulp, 1u);
    EXPECT_EQ(tally.first->tile, some_tile);
    EXPECT_EQ(tally.first->row, 1);
    EXPECT_EQ(tally.first->col, 2);
    EXPECT_NE(verdict_line(report).find("parts is the first stage that differs from memory recording, at "
                                        "batch 1, head 2, q block 1, row 1, "
                                        "column 2, KV tile 2"),
              std::string::npos)
        << verdict_line(report);
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["first_divergence"]["stage"], "parts");
    EXPECT_EQ(json["stages"].back()["name"], "parts");

    JudgeOptions tolerant = one_thread();
    tolerant.compare.atol = 1e-3;
    EXPECT_EQ(judge_pair(a, b, tolerant).verdict, Verdict::match);

    // What a stage before it explains is the stage's.
    poke(b, Stage::s, some_tile, 0, 0, 1e6f);
    EXPECT_EQ(judged(a, b).guilty, Stage::s);
}

TEST(NamedTiles, NanIsEqualToNanOnly) {
    MemoryRecording a = healthy();
    MemoryRecording b = healthy();
    poke(a, Stage::named0, some_tile, 1, 0, nan);
    EXPECT_EQ(judged(a, b).guilty, Stage::named0);
    EXPECT_EQ(judged(b, a).guilty, Stage::named0);
    poke(b, Stage::named0, some_tile, 1, 0, nan);
    EXPECT_TRUE(matches(a, b));
}

TEST(NamedTiles, TileThatOnlyOneRunWroteDiffers) {
    MemoryRecording a = healthy();
    MemoryRecording b = healthy();
    b.remove_tile(Stage::named0, some_tile);
    EXPECT_TRUE(matches(a, b)) << "neither says what was asked for";
    a.set_capture(everything_selected());
    b.set_capture(everything_selected());
    for (const bool swapped : {false, true}) {
        const Report report = swapped ? judged(b, a) : judged(a, b);
        EXPECT_EQ(report.guilty, Stage::named0);
        EXPECT_EQ(report.stage(Stage::named0).tally.tiles_missing, 1);
    }
    // A kernel need not write every tile.
    a.remove_tile(Stage::named0, some_tile);
    EXPECT_TRUE(matches(a, b));
}

TEST(NamedTiles, DroppedOnesCannotBeCompared) {
    const MemoryRecording a = healthy();
    MemoryRecording b = healthy();
    CaptureSummary capture = everything_selected();
    capture.stages[int(Stage::named0)].elements_dropped = 4;
    b.set_capture(capture);
    EXPECT_NE(error_of([&] { judged(a, b); }).find("tiles of rescale were dropped"), std::string::npos);
    EXPECT_EQ(error_of([&] { judged(b); }), "accepted");
}

TEST(NamedTiles, DeclarationsMustNotContradict) {
    Problem fewer = named_problem();
    fewer.named_tiles.pop_back();
    const MemoryRecording a = healthy();
    EXPECT_TRUE(matches(a, healthy(fewer)));
    EXPECT_TRUE(matches(healthy(fewer), a));
    Problem none = named_problem();
    none.named_tiles.clear();
    EXPECT_TRUE(matches(a, healthy(none)));
    Problem other = named_problem();
    other.named_tiles[1].col_size = 2;
    const MemoryRecording b = healthy(other);
    EXPECT_NE(error_of([&] { judged(a, b); }).find("declares other named tiles"), std::string::npos);
}

TEST(NamedTiles, AreTracedAlongARow) {
    const MemoryRecording recording = healthy();
    const Problem& p = recording.problem();
    const std::int64_t row = p.block_m + 1;
    const RowTrace trace = trace_row(recording, nullptr, one_thread(), 1, 2, row);
    const std::vector<TracePoint>& points = trace.stage(Stage::named0);
    ASSERT_EQ(std::ssize(points), p.kv_tiles());
    for (std::int64_t t = 0; t < p.kv_tiles(); ++t) {
        const std::int64_t tile = ((1 * p.heads + 2) * p.q_blocks() + 1) * p.kv_tiles() + t;
        EXPECT_EQ(float(points[std::size_t(t)].dumped_low), float(tile) + 0.01f) << t;
        EXPECT_FALSE(points[std::size_t(t)].judged_bad);
    }
    EXPECT_TRUE(trace.stage(Stage::named1).empty());
}

}  // namespace
}  // namespace tilescope::test
