// Where hooks stand, noted by many threads at once.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/schema/source_line.h"
#include "tests/dump/played_kernel.cuh"

namespace tilescope {
namespace {

constexpr int lines = 24;

/// A hook of s and one of m on each of 24 lines: some of them have the same place in the table.
__global__ void hook_many_lines(const __grid_constant__ Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int row = int(threadIdx.x) % 4;
    // clang-format off
#define HERE TILESCOPE_VALUE(s, 0, row, 0, 1.0f); TILESCOPE_VALUE(m, 0, row, 0, 2.0f)
    // Warps come to the lines in different orders.
    for (int i = 0; i < lines; ++i) {
        switch ((i + int(threadIdx.x / 32) * 5 + int(blockIdx.x)) % lines) {
#line 101 "csrc/attention.cu"
            case 0: HERE; break;
            case 1: HERE; break;
            case 2: HERE; break;
            case 3: HERE; break;
            case 4: HERE; break;
            case 5: HERE; break;
            case 6: HERE; break;
            case 7: HERE; break;
            case 8: HERE; break;
            case 9: HERE; break;
            case 10: HERE; break;
            case 11: HERE; break;
            case 12: HERE; break;
            case 13: HERE; break;
            case 14: HERE; break;
            case 15: HERE; break;
            case 16: HERE; break;
            case 17: HERE; break;
            case 18: HERE; break;
            case 19: HERE; break;
            case 20: HERE; break;
            case 21: HERE; break;
            case 22: HERE; break;
            case 23: HERE; break;
#line 56 "tests/dump/hook_source_gpu_test.cu"
        }
    }
#undef HERE
    // clang-format on
}

std::vector<SourceLine> all_lines() {
    std::vector<SourceLine> all;
    for (int i = 0; i < lines; ++i) all.push_back({"csrc/attention.cu", 101 + i});
    return all;
}

using HookSourceGpu = test::CapturesOnGpu;
INSTANTIATE_TEST_SUITE_P(Memory, HookSourceGpu,
                         testing::Values(SinkMemory::device, SinkMemory::mapped, SinkMemory::file),
                         test::name_of);

TEST_P(HookSourceGpu, EveryHookIsNamed) {
    Capture capture(test::small_problem(), test::options_of(GetParam(), "stage=s,m"));
    hook_many_lines<<<64, 512>>>(capture.sink());
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().stages[int(Stage::s)].hooks, all_lines());
    EXPECT_EQ(run.capture().stages[int(Stage::m)].hooks, all_lines());
    EXPECT_TRUE(run.capture().stages[int(Stage::p)].hooks.empty());
}

/// Nobody else writes to it: each hook takes one place of the table, whichever thread comes first.
TEST(HookSourceTable, EveryHookTakesOnePlace) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    const CapturePlan plan(test::small_problem(), parse_selection("stage=s,m", "test"), std::size_t(1) << 20);
    std::byte* memory = nullptr;
    ASSERT_EQ(cudaMalloc(&memory, plan.bytes()), cudaSuccess);
    for (int launch = 0; launch < 50; ++launch) {
        ASSERT_EQ(cudaMemcpy(memory, plan.head().data(), plan.head_bytes(), cudaMemcpyHostToDevice),
                  cudaSuccess);
        const Sink sink = plan.sink(memory);
        hook_many_lines<<<64, 512>>>(sink);
        SinkCounters counters;
        ASSERT_EQ(cudaMemcpy(&counters, sink.counters, sizeof counters, cudaMemcpyDeviceToHost), cudaSuccess);
        int taken = 0;
        for (const SinkHook& hook : counters.hooks) taken += hook.id != 0 ? 1 : 0;
        ASSERT_EQ(taken, 2 * lines) << "launch " << launch;
    }
    EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

}  // namespace
}  // namespace tilescope
