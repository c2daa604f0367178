#define DEBUG_DUMP
#include "dump/recording/flight.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dump/hook.h"
#include "dump/recording/host_flight_recorder.h"
#include "tests/dump/flight_checks.h"
#include "tests/dump/small_problem.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::expect_frozen_at_four;
using test::m_of;

FlightOptions options_for(const char* selection, int launches) {
    FlightOptions options;
    options.selection = parse_selection(selection, "test");
    options.launches = launches;
    options.max_bytes = std::size_t(1) << 20;
    return options;
}

/// A launch that writes its number, and `value` in one place.
void launch(int number, float value TILESCOPE_HOST_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 1, 4, 2);
    TILESCOPE_VALUE(m, 1, 0, 0, float(number));
    TILESCOPE_VALUE(p, 1, 1, 2, value);
}

void fly(HostFlightRecorder& recorder, int number, float value) {
    launch(number, value TILESCOPE_SINK_ARG(recorder.next()));
    recorder.check();
}

TEST(Flight, KeepsTheLastLaunches) {
    HostFlightRecorder recorder(test::small_problem(), options_for("stage=m,p", 3));
    EXPECT_EQ(recorder.recordings().size(), 0u);
    EXPECT_NE(test::error_of([&] { recorder.recording(); }).find("no launch"), std::string::npos);
    for (int number = 0; number < 5; ++number) {
        fly(recorder, number, 0.5f);
        EXPECT_EQ(m_of(recorder.recording()), float(number));
    }
    EXPECT_FALSE(recorder.frozen());
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(m_of(runs[std::size_t(i)]), float(2 + i));
    EXPECT_EQ(runs[2].provenance().launch, "launch 4");
}

TEST(Flight, KeepsTheDescalesOfEachLaunch) {
    FlightOptions options = options_for("stage=m,p", 3);
    options.side_inputs.descale_q = {0, 1, 0, {1}};
    HostFlightRecorder recorder(test::small_problem(), options);
    for (int number = 0; number < 4; ++number) {
        launch(number, 0.5f TILESCOPE_SINK_ARG(recorder.next()));
        SideInputs side = options.side_inputs;
        side.descale_q.values = {0.5f + float(number)};
        if (number != 2) recorder.side_inputs(side);
        recorder.check();
    }
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].side_inputs().descale_q.values, std::vector<float>{1.5f});
    EXPECT_EQ(runs[1].side_inputs(), options.side_inputs) << "none were given";
    EXPECT_EQ(runs[2].side_inputs().descale_q.values, std::vector<float>{3.5f});
}

TEST(Flight, StopsAtTheFirstNan) {
    HostFlightRecorder recorder(test::small_problem(), options_for("stage=m,p", 2));
    for (int number = 0; number < 9; ++number) fly(recorder, number, number >= 4 ? std::nanf("") : 0.5f);
    expect_frozen_at_four(recorder, 2);
    EXPECT_EQ(to_string(test::small_problem(), *recorder.frozen()),
              "launch 4: nan in p of batch 1, head 4, q block 2, KV tile 1, row 1 and column 2 of the tile");
}

/// What stops a recording, and what does not.
TEST(Flight, LimitsAreOfMagnitudes) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const struct {
        Stage stage;
        float limit;
        float value;
        bool stops;
    } cases[] = {{Stage::p, 1, 1, false},
                 {Stage::p, 1, std::nextafter(1.0f, 2.0f), true},
                 {Stage::p, 1, -1.5f, true},
                 {Stage::p, 0, 0, false},
                 {Stage::p, infinity, infinity, false},
                 {Stage::p, 1, -infinity, true},
                 {Stage::s, 1, -infinity, false},
                 {Stage::s, 1, infinity, true},
                 {Stage::m, 1e30f, -infinity, false},
                 {Stage::s, infinity, -std::nanf(""), true}};
    for (const auto& [stage, limit, value, stops] : cases) {
        FlightOptions options = options_for("", 1);
        options.limits[std::size_t(stage)] = limit;
        HostFlightRecorder recorder(test::small_problem(), options);
        hook_value(hook_block(recorder.next(), 0, 0, 0), stage, 0, 0, 0, value);
        recorder.check();
        EXPECT_EQ(recorder.frozen().has_value(), stops)
            << stage_info(stage).name << " " << limit << " " << value;
    }
}

TEST(Flight, TheFirstStageIsNoted) {
    HostFlightRecorder recorder(test::small_problem(), options_for("", 1));
    const Sink sink = recorder.next();
    for (const Stage stage : {Stage::o, Stage::v, Stage::acc}) {
        hook_value(hook_block(sink, 1, 0, 1), stage, 2, 1, 3, std::nanf(""));
    }
    recorder.check();
    ASSERT_TRUE(recorder.frozen());
    EXPECT_EQ(recorder.frozen()->stage, Stage::v);
    EXPECT_EQ(recorder.frozen()->tile, (TileId{1, 0, 1, 2}));
    EXPECT_EQ(recorder.frozen()->row, 1);
    EXPECT_EQ(recorder.frozen()->col, 3);
}

TEST(Flight, KeepsTheInputsOfEachLaunch) {
    const Problem problem = test::small_problem();
    HostFlightRecorder recorder(problem, options_for("stage=m,p", 2));
    for (int number = 0; number < 3; ++number) {
        launch(number, 0.5f TILESCOPE_SINK_ARG(recorder.next()));
        if (number == 1) continue;
        const auto filled = [&](Input input) {
            std::vector<std::byte> bits(input_bytes(problem, input), std::byte(0));
            for (std::size_t i = 1; i < bits.size(); i += 2) bits[i] = std::byte(number == 0 ? 0x3c : 0x44);
            return bits;
        };
        recorder.inputs(filled(Input::q), filled(Input::k), filled(Input::v));
        recorder.check();
    }
    const std::vector<CapturedRun> runs = recorder.recordings();
    EXPECT_FALSE(runs[0].has_inputs()) << "none were given, and those of launch 0 are gone";
    ASSERT_TRUE(runs[1].has_inputs());
    std::vector<float> row(8);
    runs[1].read_input(Input::q, 1, 5, 9, 1, row);
    EXPECT_EQ(row, std::vector<float>(8, 4.0f)) << "0x4400";
}

TEST(Flight, BadOptionsAreRefused) {
    const auto error = [](FlightOptions options) {
        return test::error_of([&] { HostFlightRecorder(test::small_problem(), options); });
    };
    EXPECT_NE(error(options_for("", 0)).find("no launch is to be kept"), std::string::npos);
    FlightOptions small = options_for("", 4);
    small.max_bytes = 100000;
    EXPECT_NE(error(small).find("no room for all tiles of"), std::string::npos) << error(small);
    FlightOptions negative = options_for("", 4);
    negative.limits[3] = std::nanf("");
    EXPECT_NE(error(negative).find("not a magnitude"), std::string::npos);
}

}  // namespace
}  // namespace tilescope
