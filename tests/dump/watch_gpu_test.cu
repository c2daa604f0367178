// The watch and the flight recorder on a GPU.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <hooks_flight.cuh>
#include <hooks_watch.cuh>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/flight_recorder.h"
#include "dump/hook.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/watch.h"
#include "tests/dump/flight_checks.h"
#include "tests/dump/played_kernel.cuh"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using namespace test;

class OnGpu : public testing::Test {
 protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    }
};
using WatchGpu = OnGpu;
using FlightGpu = OnGpu;

TEST_F(WatchGpu, KeepsStatisticsInPlaceOfTiles) {
    for (const SinkMemory memory : {SinkMemory::device, SinkMemory::mapped}) {
        CaptureOptions options = options_of(memory, "stage=q,acc,m");
        options.mode = SinkMode::statistics;
        Capture capture(small_problem(), options);
        launch(capture, all_blocks);
        const StatisticsRun run = capture.finish_statistics();
        EXPECT_EQ(run.capture().ended, "completed");
        for (const Stage stage : {Stage::q, Stage::acc, Stage::m}) {
            for (std::int64_t i = 0; i < tile_count(small_problem(), stage); ++i) {
                const TileId tile = tile_at(small_problem(), stage, i);
                const TileShape extent = tile_extent(small_problem(), stage, tile);
                const TileSummary got = run.tile(stage, tile).value();
                // value_of() grows with row and column.
                EXPECT_EQ(got.written, extent.elements());
                EXPECT_EQ(got.least, value_of(stage, tile, 0, 0));
                EXPECT_EQ(got.greatest, value_of(stage, tile, extent.rows - 1, extent.cols - 1));
            }
        }
        EXPECT_FALSE(run.is_hooked(Stage::s)) << "not selected";
    }
}

TEST_F(WatchGpu, TwoLaunchesHaveTheSameHashes) {
    const auto statistics = [] {
        CaptureOptions options = options_of(SinkMemory::device);
        options.mode = SinkMode::statistics;
        Capture capture(small_problem(), options);
        launch(capture, all_blocks);
        return capture.finish_statistics();
    };
    const StatisticsRun first = statistics();
    WatchReport report;
    watch_repeat(first, statistics(), report);
    EXPECT_EQ(report.findings.size(), 0u);
    // The numbers that the kernel plays are no probabilities.
    report = watch(first);
    const auto found = [&](std::string_view rule) {
        return std::ranges::any_of(report.findings,
                                   [&](const WatchFinding& f) { return f.rule->name == rule; });
    };
    EXPECT_TRUE(found("p_above_one"));
    EXPECT_FALSE(found("nan") || found("missing") || found("unwritten"));
    const SuspectSelection suspects = select_suspects(small_problem(), Units(), report, std::size_t(1) << 24);
    ASSERT_GT(suspects.dumped, 0);
    CaptureOptions options = options_of(SinkMemory::device);
    options.selection = suspects.selection;
    options.max_bytes = suspects.bytes;
    Capture again(small_problem(), options);
    launch(again, all_blocks);
    EXPECT_GT(expect_played(again.finish(), plan_of(options)), 0);
}

TEST_F(WatchGpu, StatisticsTakeNoFile) {
    CaptureOptions options = options_of(SinkMemory::file);
    options.mode = SinkMode::statistics;
    EXPECT_THROW(Capture(small_problem(), options), Error);
    Capture capture(small_problem(), [] {
        CaptureOptions device = options_of(SinkMemory::device);
        device.mode = SinkMode::statistics;
        return device;
    }());
    EXPECT_THROW(capture.finish(), Error) << "statistics are no tiles";
}

/// Writes a number counted up from launch to launch, and NaN when it has come to `nan_at`.
__global__ void count_up(int* counter, int nan_at TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 1, 4, 2);
    const int number = *counter;
    TILESCOPE_VALUE(m, 1, 0, 0, float(number));
    TILESCOPE_VALUE(p, 1, 1, 2, number >= nan_at ? NAN : 0.5f);
    *counter = number + 1;
}

FlightOptions flight_options(int launches) {
    FlightOptions options;
    options.selection = parse_selection("stage=m,p", "test");
    options.launches = launches;
    options.max_bytes = std::size_t(1) << 22;
    return options;
}

TEST_F(FlightGpu, KeepsTheLastLaunches) {
    FlightRecorder recorder(small_problem(), flight_options(3));
    const DeviceArray<int> counter(std::vector<int>{0});
    for (int i = 0; i < 7; ++i) {
        const Sink sink = recorder.next();
        count_up<<<1, 1>>>(counter.data, 1000 TILESCOPE_SINK_ARG(sink));
        recorder.check();
    }
    const std::vector<CapturedRun> runs = recorder.recordings();
    EXPECT_FALSE(recorder.frozen());
    ASSERT_EQ(runs.size(), 3u);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(m_of(runs[std::size_t(i)]), float(4 + i));
}

TEST_F(FlightGpu, StopsAtTheFirstNan) {
    FlightRecorder recorder(small_problem(), flight_options(3));
    const DeviceArray<int> counter(std::vector<int>{0});
    cudaStream_t stream;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    for (int i = 0; i < 20; ++i) {
        const Sink sink = recorder.next(stream);
        count_up<<<1, 1, 0, stream>>>(counter.data, 4 TILESCOPE_SINK_ARG(sink));
        recorder.check(stream);
    }
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    expect_frozen_at_four(recorder, 3);
    cudaStreamDestroy(stream);
}

TEST_F(FlightGpu, StopsInsideAGraph) {
    FlightRecorder recorder(small_problem(), flight_options(2));
    const DeviceArray<int> counter(std::vector<int>{0});
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    for (int i = 0; i < 2; ++i) {
        const Sink sink = recorder.next(stream);
        count_up<<<1, 1, 0, stream>>>(counter.data, 4 TILESCOPE_SINK_ARG(sink));
        recorder.check(stream);
    }
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    expect_frozen_at_four(recorder, 2);
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

TEST_F(FlightGpu, StopsAtALimit) {
    FlightOptions options = flight_options(2);
    options.limits[int(Stage::m)] = 4.5f;
    FlightRecorder recorder(small_problem(), options);
    const DeviceArray<int> counter(std::vector<int>{0});
    for (int i = 0; i < 8; ++i) {
        const Sink sink = recorder.next();
        count_up<<<1, 1>>>(counter.data, 1000 TILESCOPE_SINK_ARG(sink));
        recorder.check();
    }
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    ASSERT_TRUE(recorder.frozen());
    EXPECT_EQ(recorder.frozen()->launch, 5);
    EXPECT_EQ(recorder.frozen()->value, 5.0f);
}

TEST_F(FlightGpu, KeepsEveryStageAndTheInputs) {
    FlightOptions options = flight_options(2);
    options.selection = Selection();
    FlightRecorder recorder(small_problem(), options);
    const std::vector<std::uint16_t> q(2 * 6 * 10 * 8), k(2 * 3 * 13 * 8), v(2 * 3 * 13 * 7);
    for (int number = 0; number < 3; ++number) {
        const std::uint16_t two_to_the = std::uint16_t(0x3c00 + 0x400 * number);
        const auto filled = [&](std::size_t size) { return std::vector<std::uint16_t>(size, two_to_the); };
        const DeviceArray<std::uint16_t> device_q(filled(q.size())), device_k(filled(k.size())),
            device_v(filled(v.size()));
        play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(recorder.next()));
        if (number != 1) recorder.inputs(device_q.data, device_k.data, device_v.data);
        recorder.check();
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), 2u);
    EXPECT_FALSE(runs[0].has_inputs()) << "none were given";
    const CapturePlan plan(small_problem(), Selection(), std::size_t(1) << 24);
    for (const CapturedRun& run : runs) EXPECT_EQ(expect_played(run, plan), all_elements);

    const std::string path = testing::TempDir() + "flight_gpu.h5";
    recorder.save(path);
    const std::unique_ptr<Recording> saved = open_recording(path);
    ASSERT_TRUE(saved->has_inputs());
    std::vector<float> row(7);
    saved->read_input(Input::v, 1, 2, 12, 1, row);
    EXPECT_EQ(row, std::vector<float>(7, 4.0f));
    EXPECT_EQ(recorder.save_all(path), 2);
    for (const char* suffix : {"", ".0", ".1"}) EXPECT_TRUE(std::filesystem::remove(path + suffix));
}

TEST_F(FlightGpu, RefusesArraysThatAreMissing) {
    FlightOptions options = flight_options(1);
    options.side_inputs.descale_k = {0, 1, 0, {1}};
    FlightRecorder recorder(small_problem(), options);
    const DeviceArray<std::uint16_t> zeros(std::vector<std::uint16_t>(2 * 6 * 13 * 8));
    const DeviceArray<float> one(std::vector<float>(1, 1.0f));
    play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(recorder.next()));
    std::string error = error_of([&] { recorder.inputs(zeros.data, zeros.data, nullptr); });
    EXPECT_NE(error.find("inputs(): v is a null pointer"), std::string::npos) << error;
    error = error_of([&] { recorder.descales(one.data, nullptr, one.data); });
    EXPECT_NE(error.find("descales(): k is a null pointer"), std::string::npos) << error;
    EXPECT_NO_THROW(recorder.descales(nullptr, one.data, nullptr));
    EXPECT_FALSE(recorder.recordings().at(0).has_inputs());

    options.keep_inputs = false;
    FlightRecorder without(small_problem(), options);
    EXPECT_NO_THROW(without.inputs(nullptr, nullptr, nullptr)) << "they are not kept";
}

TEST_F(FlightGpu, KeepsTheDescalesOfEachLaunch) {
    FlightOptions options = flight_options(3);
    options.side_inputs.descale_q = {0, 1, 0, {1}};
    options.side_inputs.descale_k = {3, 1, 13, std::vector<float>(6, 1)};
    FlightRecorder recorder(small_problem(), options);
    const DeviceArray<std::uint16_t> zeros(std::vector<std::uint16_t>(2 * 6 * 13 * 8));
    for (int number = 0; number < 4; ++number) {
        const DeviceArray<float> q(std::vector<float>(1, 0.5f + float(number)));
        const DeviceArray<float> k({1, 2, 3, 4, 5, 6.0f + float(number)});
        play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(recorder.next()));
        recorder.inputs(zeros.data, zeros.data, zeros.data);
        if (number != 2) recorder.descales(q.data, k.data, nullptr);
        recorder.check();
        ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    }
    const std::vector<CapturedRun> runs = recorder.recordings();
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].side_inputs().descale_q.values, std::vector<float>{1.5f});
    EXPECT_EQ(runs[0].side_inputs().descale_k.values, (std::vector<float>{1, 2, 3, 4, 5, 7}));
    EXPECT_EQ(runs[1].side_inputs(), options.side_inputs) << "none were given";
    EXPECT_EQ(runs[2].side_inputs().descale_q.values, std::vector<float>{3.5f});
    EXPECT_EQ(runs[2].side_inputs().descale_k.values, (std::vector<float>{1, 2, 3, 4, 5, 9}));
    EXPECT_TRUE(runs[2].side_inputs().descale_v.empty());
}

// ---- the examples of HOOKS.md

TEST_F(WatchGpu, TheExampleRecordsWhatLooksWrong) {
    const Problem problem = small_problem();
    const DeviceArray<std::uint16_t> zeros(std::vector<std::uint16_t>(2 * 6 * 13 * 8));
    const std::string path = testing::TempDir() + "hooks_watch.h5";
    const auto launch_it = [](const Sink& sink) {
        play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(sink));
    };
    EXPECT_TRUE(
        record_what_looks_wrong(problem, zeros.data, zeros.data, zeros.data, launch_it, path.c_str()));
    EXPECT_TRUE(open_recording(path)->has_stage(Stage::p));
    std::filesystem::remove(path);
}

TEST_F(FlightGpu, TheExampleRecordsTheFirstNan) {
    const DeviceArray<int> counter(std::vector<int>{0});
    const std::string path = testing::TempDir() + "hooks_flight.h5";
    const auto count = [&](const Sink& sink, int) {
        count_up<<<1, 1>>>(counter.data, 4 TILESCOPE_SINK_ARG(sink));
    };
    EXPECT_EQ(record_the_first_nan(small_problem(), 10, count, path.c_str()), 4);
    EXPECT_TRUE(open_recording(path)->has_tile(Stage::p, {1, 4, 2, 1}));
    std::filesystem::remove(path);
    EXPECT_EQ(record_the_first_nan(small_problem(), 0, count, path.c_str()), -1);
}

}  // namespace
}  // namespace tilescope
