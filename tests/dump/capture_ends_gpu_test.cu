// How captures end: kernels that crash, hang or never ran, and what cannot be captured. A kernel that crashes
// takes its process along, so those tests run in children.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "tests/dump/played_kernel.cuh"

namespace tilescope {
namespace {

using namespace test;

using CaptureEnds = CapturesOnGpu;
INSTANTIATE_TEST_SUITE_P(Memory, CaptureEnds,
                         testing::Values(SinkMemory::device, SinkMemory::mapped, SinkMemory::file), name_of);

TEST_P(CaptureEnds, ReportsAKernelThatNeverRan) {
    Capture capture(test::small_problem(), options_of(GetParam()));
    play<<<1, 4096>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(capture.sink()));
    const cudaError_t refused = cudaPeekAtLastError();
    EXPECT_NE(refused, cudaSuccess);
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, cudaGetErrorString(refused));
    EXPECT_FALSE(run.has_stage(Stage::q));
    EXPECT_EQ(cudaGetLastError(), refused) << "left for the program to see";

    Capture next(test::small_problem(), options_of(GetParam()));
    launch(next, all_blocks);
    EXPECT_EQ(next.finish().capture().ended, "completed");
}

/// Crashes the kernel in its first block and judges what is left. Runs in a process of its own.
void crash_and_exit(SinkMemory memory, Ending ending) {
    const CaptureOptions options = options_of(memory, "batch=0:head=0:q_block=0");
    Capture capture(test::small_problem(), options);
    const std::vector<std::uint16_t> o(2 * 6 * 10 * 7, 0x4400);
    const DeviceArray<std::uint16_t> device_o(o);
    launch(capture, dim3(1), ending);
    capture.outputs(device_o.data, nullptr);
    const CapturedRun run = capture.finish();
    std::fprintf(stderr, "ended: %s\n", run.capture().ended.c_str());
    EXPECT_NE(run.capture().ended, "completed");
    const bool lost = run.capture().ended.find("is lost") != std::string::npos;
    if (memory != SinkMemory::device) {
        EXPECT_FALSE(lost);
        EXPECT_EQ(test::expect_played(run, plan_of(options)),
                  4 * 8 + 13 * 8 + 13 * 7 + 2 * 4 * 13 + 2 * 3 * 4 + 3 * 4 * 7 + 4 * 7 + 4);
    } else {
        EXPECT_TRUE(lost);
        for (const StageInfo& info : all_stages()) EXPECT_FALSE(run.has_stage(info.stage)) << info.name;
    }
    std::filesystem::remove(sink_file());
    std::exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST_P(CaptureEnds, SurvivesATrap) {
    EXPECT_EXIT(crash_and_exit(GetParam(), Ending::traps), testing::ExitedWithCode(0), "ended: ");
}

TEST_P(CaptureEnds, SurvivesAnIllegalAccess) {
    EXPECT_EXIT(crash_and_exit(GetParam(), Ending::writes_to_null), testing::ExitedWithCode(0),
                "ended: an illegal memory access");
}

/// A kernel that never ends, past its hooks. Runs in a process of its own.
void hang_and_exit(SinkMemory memory) {
    CaptureOptions options = options_of(memory, "batch=0:head=0:q_block=0");
    options.time_limit = std::chrono::milliseconds(500);
    Capture capture(test::small_problem(), options);
    launch(capture, dim3(1), Ending::never_ends);
    const std::vector<std::uint16_t> o(2 * 6 * 10 * 7, 0x4400);
    capture.outputs(o.data(), nullptr);
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended.find("the kernel did not end within 500 ms"), 0u) << run.capture().ended;
    if (memory != SinkMemory::device) {
        EXPECT_EQ(test::expect_played(run, plan_of(options)),
                  4 * 8 + 13 * 8 + 13 * 7 + 2 * 4 * 13 + 2 * 3 * 4 + 3 * 4 * 7 + 4 * 7 + 4);
    }
    std::fprintf(stderr, "ended: %s\n", run.capture().ended.c_str());
    std::filesystem::remove(sink_file());
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
}

TEST_P(CaptureEnds, SurvivesAHang) {
    EXPECT_EXIT(hang_and_exit(GetParam()), testing::ExitedWithCode(0), "ended: the kernel did not end");
}

TEST_P(CaptureEnds, SaysThatNoHookWrote) {
    Capture capture(test::small_problem(), options_of(GetParam()));
    play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(Sink()));
    try {
        capture.finish();
        FAIL() << "nothing was recorded";
    } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("no hook wrote anything"), std::string::npos);
    }
}

TEST(CaptureFile, IsGoneWhenTheRecordingIsSaved) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    const CaptureOptions options = options_of(SinkMemory::file);
    const std::string path = testing::TempDir() + "capture_file.h5";
    Capture capture(test::small_problem(), options);
    launch(capture, all_blocks);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const std::unique_ptr<Recording> running = open_recording(options.sink_file);
    EXPECT_EQ(running->capture().ended, ended_running);
    EXPECT_TRUE(running->has_tile(Stage::acc, {1, 5, 2, 2}));
    capture.save(path);
    EXPECT_FALSE(std::filesystem::exists(options.sink_file));
    EXPECT_TRUE(open_recording(path)->has_tile(Stage::acc, {1, 5, 2, 2}));
    std::filesystem::remove(path);
}

TEST_P(CaptureEnds, SaysThatNoHookWroteAndLeavesNoFile) {
    const std::string path = testing::TempDir() + "no_hook." + std::to_string(getpid()) + ".h5";
    Capture capture(test::small_problem(), options_of(GetParam()));
    play<<<all_blocks, 64>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(Sink()));
    EXPECT_THROW(capture.save(path), Error);
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_P(CaptureEnds, RefusesMoreMemoryThanThereIs) {
    Problem problem = test::small_problem();
    problem.seqlen_q = problem.seqlen_kv = 1 << 20;
    problem.block_m = problem.block_n = 1024;
    CaptureOptions options = options_of(GetParam(), "stage=s");
    options.max_bytes = std::size_t(1) << 44;
    EXPECT_THROW(Capture(problem, options).sink(), Error);
    cudaGetLastError();
}

}  // namespace
}  // namespace tilescope
