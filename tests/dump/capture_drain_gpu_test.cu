// Captures that are saved piece by piece, and while the device goes on.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/reader.h"
#include "tests/dump/file_sample.h"
#include "tests/dump/played_kernel.cuh"

namespace tilescope {
namespace {

using namespace test;

using CaptureDrain = CapturesOnGpu;
INSTANTIATE_TEST_SUITE_P(Memory, CaptureDrain,
                         testing::Values(SinkMemory::device, SinkMemory::mapped, SinkMemory::file), name_of);

/// Runs until the host says so.
__global__ void wait_for_host(volatile int* released) {
    while (*released == 0) {}
}

/// A kernel in a stream of its own that runs as long as this lives.
class BusyDevice {
 public:
    BusyDevice() {
        EXPECT_EQ(cudaHostAlloc(&released_, sizeof(int), cudaHostAllocMapped), cudaSuccess);
        *released_ = 0;
        EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }
    void begin() { wait_for_host<<<1, 1, 0, stream_>>>(released_); }
    /// Leaves an error behind that is none: cudaErrorNotReady.
    bool is_busy() const { return cudaStreamQuery(stream_) == cudaErrorNotReady; }
    ~BusyDevice() {
        *released_ = 1;
        EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
        cudaStreamDestroy(stream_);
        cudaFreeHost(const_cast<int*>(released_));
    }

 private:
    volatile int* released_ = nullptr;
    cudaStream_t stream_ = nullptr;
};

/// Tiles of 64 x 64 of s, 64 MiB of them: several pieces.
Problem problem_of_pieces() {
    Problem problem;
    problem.heads = problem.heads_kv = 4;
    problem.seqlen_q = problem.seqlen_kv = 2048;
    problem.block_m = problem.block_n = 64;
    problem.head_dim = problem.head_dim_v = 64;
    return problem;
}

__device__ float score(int head, int q_block, int t, int i) {
    return float(((head * 32 + q_block) * 32 + t) * 4096 + i) / 16777216.0f;
}

/// Leaves out every fifth KV tile.
__global__ void write_scores(const __grid_constant__ Sink sink) {
    TILESCOPE_BLOCK(sink, 0, blockIdx.y, blockIdx.x);
    for (int t = 0; t < 32; ++t) {
        if (t % 5 == 3) continue;
        for (int i = int(threadIdx.x); i < 4096; i += int(blockDim.x)) {
            TILESCOPE_VALUE(s, t, i / 64, i % 64, score(int(blockIdx.y), int(blockIdx.x), t, i));
        }
    }
}

TEST_P(CaptureDrain, SavesTheTilesOfManyPieces) {
    const std::string path = testing::TempDir() + "pieces." + std::to_string(getpid()) + ".h5";
    Capture capture(problem_of_pieces(), options_of(GetParam(), "stage=s"));
    write_scores<<<dim3(32, 4), 128>>>(capture.sink());
    const CapturedRun in_memory = capture.finish();
    capture.save(path);
    {
        const std::unique_ptr<Recording> saved = open_recording(path);
        EXPECT_EQ(expect_same_contents(*saved, in_memory), 4 * 32 * 26);
        std::vector<float> tile(4096);
        ASSERT_TRUE(saved->read_tile(Stage::s, {0, 3, 31, 30}, tile));
        EXPECT_EQ(tile[4095], float(((3 * 32 + 31) * 32 + 30) * 4096 + 4095) / 16777216.0f);
        EXPECT_FALSE(saved->has_tile(Stage::s, {0, 3, 31, 28}));
    }
    std::filesystem::remove(path);
}

TEST_P(CaptureDrain, SavesWhileTheDeviceGoesOn) {
    const std::string path = testing::TempDir() + "overlap." + std::to_string(getpid()) + ".h5";
    const DeviceArray<std::uint16_t> o(std::vector<std::uint16_t>(2 * 6 * 10 * 7, 0x4400));
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    Capture capture(small_problem(), options_of(GetParam()));
    const Sink sink = capture.sink();
    {
        BusyDevice device;
        for (int launched = 0; launched < 3; ++launched) {
            capture.restart(stream);
            play<<<all_blocks, 64, 0, stream>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(sink));
            capture.done(stream);
            if (launched == 0) device.begin();
            if (launched == 1) capture.outputs(o.data, nullptr);
            capture.save(path);
            std::vector<float> tile(4 * 7);
            const std::unique_ptr<Recording> saved = open_recording(path);
            EXPECT_EQ(saved->capture().ended, "completed");
            ASSERT_TRUE(saved->read_tile(Stage::o, {1, 5, 0, 0}, tile));
            EXPECT_EQ(tile[27] == 4.0f, launched == 1) << "outputs are those of one launch";
            EXPECT_TRUE(saved->has_tile(Stage::acc, {1, 5, 2, 2}));
            ASSERT_TRUE(device.is_busy()) << "launch " << launched;
        }
    }
    cudaStreamDestroy(stream);
    std::filesystem::remove(path);
}

TEST_P(CaptureDrain, TheTimeLimitCountsForTheStreamsThatAreDone) {
    CaptureOptions options = options_of(GetParam());
    options.time_limit = std::chrono::milliseconds(10000);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    Capture capture(small_problem(), options);
    const Sink sink = capture.sink();
    {
        BusyDevice device;
        play<<<all_blocks, 64, 0, stream>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(sink));
        capture.done(stream);
        device.begin();
        EXPECT_EQ(capture.finish().capture().ended, "completed");
        EXPECT_TRUE(device.is_busy());
    }
    cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace tilescope
