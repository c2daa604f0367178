#define DEBUG_DUMP
#include "dump/recording/tile_statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dump/hook.h"
#include "tests/dump/small_problem.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

/// What a launch keeps whose hooks `write`.
template <class Write>
StatisticsRun statistics_after(const Write& write, const char* selection = "stage=s,m") {
    CapturePlan plan(test::small_problem(), parse_selection(selection, "test"), std::size_t(1) << 20,
                     SinkMode::statistics);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    write(plan.sink(memory.data()));
    RecordedCall call(plan.problem(), Units(), Provenance(), {});
    return {std::move(plan), std::move(memory), std::move(call)};
}

TEST(TileStatistics, AreThoseOfTheElements) {
    // Quarters: float32 adds them exactly.
    const std::vector<float> row = {-3.25f, 0.0f, 1.5f, -0.0f, 7.75f};
    const StatisticsRun run = statistics_after([&](const Sink& sink) {
        TILESCOPE_BLOCK(sink, 1, 3, 1);
        for (int col = 0; col < 5; ++col) TILESCOPE_VALUE(s, 1, 2, col, row[std::size_t(col)]);
        TILESCOPE_VALUE(s, 1, 3, 0, std::nanf(""));
        TILESCOPE_VALUE(s, 1, 3, 1, -std::numeric_limits<float>::infinity());
    });
    const TileSummary tile = run.tile(Stage::s, {1, 3, 1, 1}).value();
    EXPECT_EQ(tile.written, 7);
    EXPECT_EQ(tile.nan, 1);
    EXPECT_EQ(tile.infinite, 1);
    EXPECT_EQ(tile.zero, 2);
    EXPECT_EQ(tile.finite(), 5);
    EXPECT_EQ(tile.least, -3.25f);
    EXPECT_EQ(tile.greatest, 7.75f);
    EXPECT_EQ(tile.magnitude(), 7.75);
    EXPECT_EQ(tile.sum, 6.0);
    EXPECT_EQ(tile.mean(), 1.2);
    EXPECT_EQ(tile.sum_of_squares, 3.25 * 3.25 + 1.5 * 1.5 + 7.75 * 7.75);
    EXPECT_EQ(tile.rms(), std::sqrt(tile.sum_of_squares / 5));

    EXPECT_EQ(run.tile(Stage::s, {1, 3, 1, 2})->written, 0);
    EXPECT_TRUE(std::isnan(run.tile(Stage::s, {1, 3, 1, 2})->greatest));
    EXPECT_FALSE(run.tile(Stage::p, {1, 3, 1, 1})) << "not selected";
    EXPECT_TRUE(run.is_hooked(Stage::s));
    EXPECT_FALSE(run.is_hooked(Stage::m)) << "no hook wrote";
}

TEST(TileStatistics, NegativeTilesHaveAGreatest) {
    const StatisticsRun run = statistics_after([](const Sink& sink) {
        TILESCOPE_BLOCK(sink, 0, 0, 0);
        for (int row = 0; row < 4; ++row) TILESCOPE_VALUE(m, 0, row, 0, -2.0f - float(row));
    });
    EXPECT_EQ(run.tile(Stage::m, {})->least, -5.0f);
    EXPECT_EQ(run.tile(Stage::m, {})->greatest, -2.0f);
}

TEST(TileStatistics, KnowTheLeastAndTheGreatestOfAnySigns) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float huge = std::numeric_limits<float>::max();  // its square is none
    constexpr float tiny = std::numeric_limits<float>::denorm_min();
    struct Case {
        std::vector<float> values;
        float least;
        float greatest;
        int zeros;
    };
    const Case cases[] = {
        {{3, 1, 2}, 1, 3, 0},
        {{-3, -1, -2}, -3, -1, 0},
        {{-3, 5, 1, -1}, -3, 5, 0},
        {{0, 0}, 0, 0, 2},
        {{-0.0f}, 0, 0, 1},
        {{5, -0.0f, 7}, 0, 7, 1},
        {{-5, -0.0f, -7}, -7, 0, 1},
        {{-5, 0, -7}, -7, 0, 1},
        {{tiny, -tiny}, -tiny, tiny, 0},
        {{huge, -huge, 1}, -huge, huge, 0},
        {{infinity, 2, -infinity, -3, std::nanf("")}, -3, 2, 0},
        {{-infinity, -0.0f, 4}, 0, 4, 1},
    };
    for (const Case& c : cases) {
        const StatisticsRun run = statistics_after([&](const Sink& sink) {
            TILESCOPE_BLOCK(sink, 0, 0, 0);
            // All of them in one thread's part.
            TILESCOPE_FRAGMENT(s, 0, rolled(c.values), Columns{0, 0});
        });
        const TileSummary tile = run.tile(Stage::s, {}).value();
        const auto which = testing::Message() << "values from " << c.values[0];
        EXPECT_EQ(tile.written, std::int64_t(c.values.size())) << which;
        EXPECT_EQ(tile.least, c.least) << which;
        EXPECT_EQ(tile.greatest, c.greatest) << which;
        EXPECT_FALSE(std::signbit(tile.least) && tile.least == 0) << which;
        EXPECT_FALSE(std::signbit(tile.greatest) && tile.greatest == 0) << which;
        EXPECT_EQ(tile.zero, c.zeros) << which;
    }
}

TEST(TileStatistics, HashesTellBitsAndPlaces) {
    const auto hash_of = [](int row, float value) {
        return statistics_after([&](const Sink& sink) {
                   TILESCOPE_BLOCK(sink, 0, 0, 0);
                   TILESCOPE_VALUE(m, 0, row, 0, value);
               })
            .tile(Stage::m, {})
            ->hash;
    };
    EXPECT_EQ(hash_of(1, 2.0f), hash_of(1, 2.0f));
    EXPECT_NE(hash_of(1, 2.0f), hash_of(2, 2.0f));
    EXPECT_NE(hash_of(1, 2.0f), hash_of(1, std::nextafter(2.0f, 3.0f)));
    EXPECT_NE(hash_of(1, 0.0f), hash_of(1, -0.0f));
}

TEST(TileStatistics, OtherMemoryIsRefused) {
    const CapturePlan tiles(test::small_problem(), Selection(), std::size_t(1) << 20);
    RecordedCall call(tiles.problem(), Units(), Provenance(), {});
    const std::string error =
        test::error_of([&] { StatisticsRun(tiles, std::vector<std::byte>(tiles.bytes()), std::move(call)); });
    EXPECT_NE(error.find("holds tiles, no statistics"), std::string::npos) << error;
}

}  // namespace
}  // namespace tilescope
