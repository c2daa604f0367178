// The threads that own what is wrong: planted by hand from the layouts' tables, and told by the report.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "oracle/explain/explain.h"
#include "oracle/report/text.h"
#include "oracle/runs/same_run.h"
#include "oracle/runs/wrong_threads.h"
#include "tests/oracle/diagnosed.h"
#include "tests/oracle/honest_kernel.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 59;

/// Threads are told however little the search for what computes such values, which nothing does, may work.
constexpr std::int64_t little_effort = 100'000'000;

/// s has tiles of 64 x 32, acc of 64 x 16.
Problem tall_problem() {
    Problem problem = small_problem(Mask::none);
    problem.batch = 1;
    problem.seqlen_q = 128;
    problem.seqlen_kv = 96;
    problem.head_dim = problem.head_dim_v = 16;
    problem.block_m = 64;
    problem.block_n = 32;
    return problem;
}

using IsWrong = std::function<bool(const TileId& tile, std::int64_t row, std::int64_t col)>;

/// A healthy recording in which the elements of a stage are spoilt.
MemoryRecording spoilt(Stage stage, const ThreadLayout& layout, const IsWrong& is_wrong) {
    MemoryRecording recording = recorded(make_call(tall_problem(), seed));
    ThreadLayouts threads;
    threads[stage] = layout;
    threads.fragments = {{"mine", 2, 32, {}}};
    // Two rows of 32 columns: the lane of a column, the register of a row.
    for (int i = 0; i < 64; ++i) threads.fragments[0].owners.push_back({i % 32, i / 32});
    recording.set_threads(threads);
    std::uint32_t place = 0;
    change_stage(recording, stage, [&](float value, const TileId& tile, std::int64_t row, std::int64_t col) {
        const std::uint32_t hash = (++place + 0x9e3779b9u) * 0x85ebca6bu;
        return is_wrong(tile, row, col) ? 3 * value + 1 + float(hash >> 8) * 0x1p-24f : value;
    });
    return recording;
}

struct Planted {
    const char* name;
    ThreadLayout layout;
    IsWrong is_wrong;
    const char* where;
    const char* cause;
    const char* belongs_to;
};

const ThreadLayout mma = {.fragment = "mma_m16n8"};
const ThreadLayout wgmma = {.fragment = "wgmma_m64"};
const ThreadLayout eight_lanes = {.fragment = "lanes", .lanes = 8, .groups = 8};

// Rows and columns as the figures of the PTX ISA have them for a lane, or a register, written out.
const Planted all_planted[] = {
    {"lane 5 of mma.sync: rows 1 and 9, columns 2 and 3 of every 8", mma,
     [](const TileId&, std::int64_t row, std::int64_t col) {
         return (row % 16 == 1 || row % 16 == 9) && (col % 8 == 2 || col % 8 == 3);
     },
     "every warp, lane 5", "one_lane_group", "lane 5 of every warp"},
    {"lanes 16 to 31 of warp 2: rows 36 to 39 and 44 to 47", mma,
     [](const TileId&, std::int64_t row, std::int64_t) {
         return (row >= 36 && row < 40) || (row >= 44 && row < 48);
     },
     "warp 2 of 4, lanes 16-31", "one_lane_group", "lanes 16-31 of warp 2"},
    {"c3 of mma.sync: the lower eight rows, odd columns", mma,
     [](const TileId&, std::int64_t row, std::int64_t col) { return row % 16 >= 8 && col % 2 == 1; },
     "every warp, all lanes, registers 3, 7, 11, 15 of 16", "one_register",
     "registers 3, 7, 11 and 15 of every thread"},
    {"c2 of lane 31 in warp 3: rows 63, columns 6, 14, 22 and 30", mma,
     [](const TileId&, std::int64_t row, std::int64_t col) { return row == 63 && col % 8 == 6; },
     "warp 3 of 4, lane 31, registers 2, 6, 10, 14 of 16", "one_lane_group",
     "registers 2, 6, 10 and 14 of lane 31 of warp 3"},
    {"the warp with rows 16 to 31 of mma.sync", mma,
     [](const TileId&, std::int64_t row, std::int64_t) { return row >= 16 && row < 32; }, "warp 1 of 4",
     "one_warp", "warp 1"},
    {"the last warp of a warpgroup: rows 48 to 63", wgmma,
     [](const TileId&, std::int64_t row, std::int64_t) { return row >= 48; }, "warp 3 of 4", "one_warp",
     "warp 3"},
    {"thread 37 of a warpgroup: rows 17 and 25, columns 2 and 3 of every 8", wgmma,
     [](const TileId&, std::int64_t row, std::int64_t col) {
         return (row == 17 || row == 25) && (col % 8 == 2 || col % 8 == 3);
     },
     "warp 1 of 4, lane 5", "one_lane_group", "lane 5 of warp 1"},
    {"d4 and d5 of a warpgroup: columns 8 to 15 of the upper rows", wgmma,
     [](const TileId&, std::int64_t row, std::int64_t col) { return row % 16 < 8 && col >= 8 && col < 16; },
     "every warp, all lanes, registers 4-5 of 16", "one_register", "registers 4-5 of every thread"},
    {"lane 26 of eight a row: column 2 of every 8, row 3 of every 4", eight_lanes,
     [](const TileId&, std::int64_t row, std::int64_t col) { return row % 4 == 3 && col % 8 == 2; },
     "every warp, lane 26", "one_lane_group", "lane 26 of every warp"},
    {"the first register of the second round of eight warps: rows from 32 on, columns 0 to 7", eight_lanes,
     [](const TileId&, std::int64_t row, std::int64_t col) { return row >= 32 && col < 8; },
     "every warp, all lanes, register 4 of 8", "one_register", "register 4 of every thread"},
    {"lanes 8 to 11 of a fragment of one's own: columns 8 to 11 of the second row of two",
     {.fragment = "mine", .group_rows = 16},
     [](const TileId&, std::int64_t row, std::int64_t col) { return row % 2 == 1 && col >= 8 && col < 12; },
     "every warp, lanes 8-11, registers 1 of every 2",
     "one_lane_group",
     "registers 1 of every 2 in lanes 8-11 in every warp"},
};

TEST(WrongThreads, AreThoseThatOwnWhatIsWrong) {
    for (const Planted& planted : all_planted) {
        SCOPED_TRACE(planted.name);
        const Report report = diagnosed(spoilt(Stage::s, planted.layout, planted.is_wrong), little_effort);
        ASSERT_EQ(report.guilty, Stage::s);
        ASSERT_TRUE(report.diagnosis.threads);
        EXPECT_EQ(report.diagnosis.threads->says, planted.where);
        EXPECT_EQ(threads_sentence(report, *report.diagnosis.threads),
                  fmt::format("every wrong element belongs to {}", planted.belongs_to));
        ASSERT_FALSE(report.diagnosis.causes.empty());
        const FoundCause& best = report.diagnosis.causes[0];
        EXPECT_TRUE(best.structural);
        EXPECT_EQ(best.name, planted.cause);
        EXPECT_EQ(best.where, planted.where);
    }
}

bool in_column_3_of_8(const TileId&, std::int64_t, std::int64_t col) {
    return col % 8 == 3;
}

/// Column 3 of every 8 is c1 and c3 of the lanes 1, 5, 9, ...: rows and columns say it shorter.
TEST(WrongThreads, StandBesidePatternsOfRowsAndColumns) {
    const Report report = diagnosed(spoilt(Stage::s, mma, in_column_3_of_8), little_effort);
    ASSERT_EQ(report.diagnosis.causes.size(), 2u);
    EXPECT_EQ(report.diagnosis.causes[0].name, "periodic_columns");
    EXPECT_EQ(report.diagnosis.causes[1].name, "one_lane_group");
    EXPECT_EQ(report.diagnosis.causes[1].rank, 1) << "as good";
    const char* const where = "every warp, lanes 1 of every 4, registers 1 of every 2";
    for (const FoundCause& cause : report.diagnosis.causes) EXPECT_EQ(cause.where, where) << cause.name;
    const std::string text = to_text(report);
    EXPECT_NE(text.find(std::string("  the wrong elements are those of ") + where + "\n"), std::string::npos)
        << text;
}

TEST(WrongThreads, AreInTheReport) {
    const IsWrong lane_5_of_warp_1 = [](const TileId&, std::int64_t row, std::int64_t col) {
        return (row == 17 || row == 25) && (col % 8 == 2 || col % 8 == 3);
    };
    const MemoryRecording recording = spoilt(Stage::s, mma, lane_5_of_warp_1);
    const Report report = diagnosed(recording, little_effort);
    const std::string text = to_text(report);
    EXPECT_NE(text.find("(row 17 of its tile; warp 1, lane 5, register 0): got "), std::string::npos) << text;
    const nlohmann::json json = nlohmann::json::parse(to_json(report));
    const nlohmann::json thread = {{"warp", 1}, {"lane", 5}, {"register", 0}};
    EXPECT_EQ(json["first_divergence"]["thread"], thread);
    const nlohmann::json threads = {{"where", "warp 1 of 4, lane 5"},
                                    {"warps", {1}},
                                    {"lanes", {5}},
                                    {"registers", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
                                    {"warps_of_block", 4},
                                    {"registers_of_thread", 16},
                                    {"among_right_ones", false}};
    EXPECT_EQ(json["wrong_threads"], threads);
    const nlohmann::json parameters = {{"warps", "1"}, {"lanes", "5"}};
    EXPECT_EQ(json["causes"][0]["parameters"], parameters);
    EXPECT_EQ(json["causes"][0]["where"], "warp 1 of 4, lane 5");
    // The second query block, row 25, and key 43 of KV tile 1: c3 of its second fragment.
    const std::string element =
        to_text(explain_tolerance(recording, element_place(recording, "s,0,0,89,43")));
    EXPECT_NE(element.find("\nowned by warp 1, lane 5, register 7\n"), std::string::npos) << element;
}

TEST(WrongThreads, AreNoneWhereNothingIsDeclared) {
    const Report report = diagnosed(spoilt(Stage::s, {}, in_column_3_of_8), little_effort);
    EXPECT_FALSE(report.diagnosis.threads);
    EXPECT_EQ(report.diagnosis.causes.size(), 1u);
    EXPECT_EQ(report.diagnosis.causes[0].where, "");
    const nlohmann::json json = nlohmann::json::parse(to_json(report));
    EXPECT_TRUE(json["wrong_threads"].is_null());
    EXPECT_TRUE(json["first_divergence"]["thread"].is_null());
    EXPECT_EQ(to_text(report).find("warp"), std::string::npos) << to_text(report);
}

TEST(WrongThreads, AreNoneWhereTheyDoNotTellRightFromWrong) {
    const std::pair<const char*, IsWrong> cases[] = {
        {"everywhere", [](const TileId&, std::int64_t, std::int64_t) { return true; }},
        {"lane 5, in a tenth of its elements",
         [](const TileId& tile, std::int64_t row, std::int64_t col) {
             const std::int64_t place =
                 tile.kv_tile * 7 + tile.q_block * 3 + tile.head * 11 + row / 8 * 5 + col * 3;
             return row % 8 == 1 && col % 8 / 2 == 1 && place % 13 == 0;
         }},
        {"here and there",
         [](const TileId& tile, std::int64_t row, std::int64_t col) {
             return (row * 37 + col * 101 + tile.kv_tile * 17) % 61 < 3;
         }},
        {"a diagonal", [](const TileId&, std::int64_t row, std::int64_t col) { return row == col; }},
    };
    for (const auto& [name, is_wrong] : cases) {
        const Report report = diagnosed(spoilt(Stage::s, mma, is_wrong), little_effort);
        EXPECT_FALSE(report.diagnosis.threads) << name << ": " << report.diagnosis.threads->says;
        for (const FoundCause& cause : report.diagnosis.causes)
            EXPECT_TRUE(cause.name != "one_warp" && cause.name != "one_lane_group" &&
                        cause.name != "one_register")
                << name;
    }
}

/// More than half of what sixteen lanes hold is wrong, nothing else is: that names no cause, and says where
/// to look.
TEST(WrongThreads, MayOwnRightElementsToo) {
    const IsWrong some_of_lanes_0_to_15 = [](const TileId& tile, std::int64_t row, std::int64_t col) {
        return row % 8 / 4 == 0 && (row / 16 * 3 + tile.kv_tile + col * 5 + col / 8) % 7 < 4;
    };
    const Report report = diagnosed(spoilt(Stage::s, mma, some_of_lanes_0_to_15), little_effort);
    ASSERT_TRUE(report.diagnosis.threads);
    EXPECT_TRUE(report.diagnosis.threads->among_right_ones);
    EXPECT_EQ(report.diagnosis.threads->says, "every warp, lanes 0-15");
    for (const FoundCause& cause : report.diagnosis.causes) EXPECT_NE(cause.name, "one_lane_group");
    EXPECT_NE(
        to_text(report).find("  the wrong elements, and right ones, are those of every warp, lanes 0-15\n"),
        std::string::npos)
        << to_text(report);
    EXPECT_EQ(nlohmann::json::parse(to_json(report))["wrong_threads"]["among_right_ones"], true);
}

/// A cause that a replay explains keeps its name, and says which threads it hits.
TEST(WrongThreads, StandBesideCausesThatAreReplayed) {
    MemoryRecording recording = recorded(make_call(tall_problem(), seed));
    ThreadLayouts threads;
    threads[Stage::p] = {.fragment = "lanes", .lanes = 8, .groups = 8};
    recording.set_threads(threads);
    change_stage(recording, Stage::p, [](float value, const TileId&, std::int64_t, std::int64_t col) {
        return col % 16 >= 8 ? unwritten : value;
    });
    const Report report = diagnosed(recording, little_effort);
    ASSERT_FALSE(report.diagnosis.causes.empty());
    EXPECT_EQ(report.diagnosis.causes[0].name, "p_lane_stride");
    ASSERT_TRUE(report.diagnosis.threads);
    // Columns 8-15 and 24-31 are registers 1 and 3 of the four that a lane has of a row.
    EXPECT_EQ(report.diagnosis.threads->says, "every warp, all lanes, registers 1, 3, 5, 7 of 8");
}

/// The threads that copy an operand to shared memory did not compute it: they are no cause.
TEST(WrongThreads, OfOperandsAreNoCause) {
    const ThreadLayout copies = {.fragment = "lanes", .lanes = 2, .lane_columns = 8, .groups = 2};
    const Report report = diagnosed(
        spoilt(Stage::k, copies, [](const TileId&, std::int64_t row, std::int64_t) { return row == 21; }),
        little_effort);
    ASSERT_EQ(report.guilty, Stage::k);
    ASSERT_TRUE(report.diagnosis.threads);
    EXPECT_EQ(report.diagnosis.threads->says, "warp 1 of 2, lanes 10-11");
    for (const FoundCause& cause : report.diagnosis.causes) EXPECT_NE(cause.name, "one_lane_group");
}

/// Values of a row: four lanes share one, and the first of them has it.
TEST(WrongThreads, OfRowValuesAreTheFirstOfARow) {
    const Report report =
        diagnosed(spoilt(Stage::l, mma,
                         [](const TileId&, std::int64_t row, std::int64_t) { return row >= 32 && row < 40; }),
                  little_effort);
    ASSERT_EQ(report.guilty, Stage::l);
    ASSERT_TRUE(report.diagnosis.threads);
    EXPECT_EQ(report.diagnosis.threads->says, "warp 2 of 4, all lanes, register 0 of 2");
}

/// Where one run of rows holds as much as the threads do, nothing is gained by naming them.
TEST(WrongThreads, GiveWayToRowsThatSayAsMuch) {
    const auto sentence = [](const IsWrong& is_wrong) {
        const Report report = diagnosed(spoilt(Stage::s, mma, is_wrong), little_effort);
        return report.diagnosis.threads ? threads_sentence(report, *report.diagnosis.threads)
                                        : std::string("nobody");
    };
    const auto first = [](const TileId& tile) { return tile.head == 0 && tile.q_block == 0; };
    EXPECT_EQ(sentence([&](const TileId& tile, std::int64_t row, std::int64_t) {
                  return first(tile) && row == 17;
              }),
              "");
    EXPECT_EQ(sentence([&](const TileId& tile, std::int64_t row, std::int64_t) {
                  return first(tile) && row >= 16 && row < 32;
              }),
              "");
    EXPECT_EQ(sentence([&](const TileId& tile, std::int64_t row, std::int64_t) {
                  return tile.head == 0 && row >= 16 && row < 32;
              }),
              "every wrong element belongs to warp 1");
    // Half of the row's columns are those of two lanes.
    EXPECT_EQ(sentence([&](const TileId& tile, std::int64_t row, std::int64_t col) {
                  return first(tile) && row == 17 && col % 8 < 4;
              }),
              "every wrong element belongs to registers 0-1 of every 4 in lanes 4-5 in warp 1");
}

TEST(WrongThreads, AreNotNamedWhereTheyAreNearlyAll) {
    const Report report = diagnosed(
        spoilt(Stage::s, mma,
               [](const TileId&, std::int64_t row, std::int64_t col) { return row % 8 != 7 || col % 8 < 6; }),
        little_effort);
    ASSERT_TRUE(report.diagnosis.threads);
    EXPECT_EQ(report.diagnosis.threads->says, "every warp, lanes 0-30");
    EXPECT_EQ(threads_sentence(report, *report.diagnosis.threads), "");
}

/// What differs from run to run is of threads, too.
TEST(WrongThreads, OfARaceAreThoseOfWhatDiffers) {
    const IsWrong lane_5_of_warp_1 = [](const TileId& tile, std::int64_t row, std::int64_t col) {
        return tile.kv_tile == 1 && (row == 17 || row == 25) && (col % 8 == 2 || col % 8 == 3);
    };
    const IsWrong nothing = [](const TileId&, std::int64_t, std::int64_t) { return false; };
    const MemoryRecording healthy = spoilt(Stage::s, mma, nothing);
    const SameRun runs = compare_same_run(healthy, spoilt(Stage::s, mma, lane_5_of_warp_1));
    EXPECT_EQ(runs.threads, "warp 1 of 4, lane 5");
    EXPECT_NE(to_text(runs).find("; warp 1 of 4, lane 5\n"), std::string::npos) << to_text(runs);
    EXPECT_EQ(nlohmann::json::parse(to_json(runs))["causes"][0]["threads"], "warp 1 of 4, lane 5");
    EXPECT_EQ(compare_same_run(healthy, healthy).threads, "");
    const MemoryRecording undeclared = spoilt(Stage::s, {}, nothing);
    EXPECT_EQ(compare_same_run(undeclared, spoilt(Stage::s, {}, lane_5_of_warp_1)).threads, "");
}

}  // namespace
}  // namespace tilescope::test
