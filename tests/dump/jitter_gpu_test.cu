// Warps that wait in hooks: a barrier that is missing shows, a kernel that has it computes the same.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"

namespace tilescope {
namespace {

/// Skips where there is no GPU.
class NeedsGpu : public testing::Test {
 protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    }
};
using JitterOnGpu = NeedsGpu;
using PoisonedCapture = NeedsGpu;

constexpr int rows = 64;
constexpr int tiles = 4;
constexpr int runs = 12;

/// s of a row is what the thread of another warp stored for this tile: 64 * tile + its row.
template <bool has_barrier>
__global__ void hand_over(TILESCOPE_GRID_CONSTANT const Sink sink) {
    __shared__ volatile float stored[rows];
    TILESCOPE_BLOCK(sink, 0, 0, blockIdx.x);
    const int row = int(threadIdx.x);
    for (int tile = 0; tile < tiles; ++tile) {
        __syncthreads();
        TILESCOPE_WAIT(tile);
        stored[row] = float(rows * tile + row);
        if (has_barrier) __syncthreads();
        const float other = stored[(row + 32) % rows];
        for (int col = 0; col < 8; ++col) TILESCOPE_VALUE(s, tile, row, col, other);
    }
}

/// What is recorded in the launch, elements that are not what was to be handed over.
template <bool has_barrier>
int wrong_elements(std::uint32_t jitter) {
    Problem problem;
    problem.seqlen_q = 4 * rows;
    problem.seqlen_kv = 8 * tiles;
    problem.head_dim = problem.head_dim_v = 8;
    problem.block_m = rows;
    problem.block_n = 8;
    problem.sm_scale = 1;
    CaptureOptions options;
    options.selection.emplace();
    options.jitter = jitter;
    Capture capture(problem, options);
    hand_over<has_barrier><<<4, rows>>>(capture.sink());
    const CapturedRun run = capture.finish();
    int wrong = 0;
    for (int q_block = 0; q_block < 4; ++q_block) {
        for (int tile = 0; tile < tiles; ++tile) {
            std::vector<float> s(rows * 8);
            run.read_tile(Stage::s, {0, 0, q_block, tile}, s);
            for (int i = 0; i < rows * 8; ++i) wrong += s[i] != float(rows * tile + (i / 8 + 32) % rows);
        }
    }
    return wrong;
}

template <bool has_barrier>
int wrong_runs(bool waits) {
    int wrong = 0;
    for (int run = 1; run <= runs; ++run)
        wrong += wrong_elements<has_barrier>(waits ? std::uint32_t(run) : 0) > 0;
    return wrong;
}

TEST_F(JitterOnGpu, ShowsABarrierThatIsMissing) {
    EXPECT_GE(wrong_runs<false>(true), runs / 2);
    RecordProperty("without_waiting", wrong_runs<false>(false));
}

TEST_F(JitterOnGpu, ChangesNothingWhereTheBarrierIsThere) {
    EXPECT_EQ(wrong_runs<true>(true), 0);
    EXPECT_EQ(wrong_runs<true>(false), 0);
}

TEST_F(JitterOnGpu, IsAskedForByTheEnvironment) {
    Problem problem;
    problem.block_m = problem.block_n = 16;
    setenv("TILESCOPE_JITTER", "7", 1);
    EXPECT_EQ(Capture(problem).sink().jitter, 7u);
    CaptureOptions options;
    options.jitter = 0;
    EXPECT_EQ(Capture(problem, options).sink().jitter, 0u);
    setenv("TILESCOPE_JITTER", "seven", 1);
    EXPECT_THROW(Capture{problem}, Error);
    unsetenv("TILESCOPE_JITTER");
    EXPECT_EQ(Capture(problem).sink().jitter, 0u);
}

/// Reads shared memory that it has not written.
__global__ void read_unwritten(TILESCOPE_GRID_CONSTANT const Sink sink) {
    __shared__ volatile float never[rows];
    TILESCOPE_BLOCK(sink, 0, 0, blockIdx.x);
    TILESCOPE_VALUE(m, 0, int(threadIdx.x), 0, never[threadIdx.x]);
}

TEST_F(PoisonedCapture, IsFoundByTheKernelAndSaysSo) {
    Problem problem;
    problem.seqlen_q = problem.block_m = rows;
    problem.seqlen_kv = problem.block_n = 16;
    Capture capture(problem);
    capture.poison(0x3f800000u);
    read_unwritten<<<1, rows>>>(capture.sink());
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.provenance().poison, "0x3f800000");
    std::vector<float> m(rows);
    run.read_tile(Stage::m, {0, 0, 0, 0}, m);
    for (const float value : m) EXPECT_EQ(value, 1.0f);
}

}  // namespace
}  // namespace tilescope
