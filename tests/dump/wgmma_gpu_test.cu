// Accumulators of wgmma, which only GPUs of compute capability 9.0 have: as fragment_gpu_test.cu does it.

#define DEBUG_DUMP
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"

namespace tilescope {
namespace {

__device__ std::uint32_t twice(float value) {
    const __half2 both = __float2half2_rn(value);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// What wgmma needs to find a matrix without swizzling in shared memory. Source: PTX ISA, matrix descriptor.
__device__ std::uint64_t descriptor(const void* matrix, int leading_bytes, int stride_bytes) {
    const std::uint64_t address = __cvta_generic_to_shared(matrix);
    return (address & 0x3ffff) >> 4 | std::uint64_t(leading_bytes >> 4) << 16 |
           std::uint64_t(stride_bytes >> 4) << 32;
}

/// 64 x 16 = A B of depth 16; A from registers. Then the other warps give back their registers, and hook.
__global__ void __launch_bounds__(256, 1) product(TILESCOPE_GRID_CONSTANT const Sink sink) {
    // Core matrices of 8 columns x 8 of the depth: two along the depth, then two along the columns.
    __shared__ __align__(128) __half b[4 * 64];
    const int thread = int(threadIdx.x);
    for (int i = thread; i < 4 * 64; i += 256) b[i] = __float2half(float(i / 64 % 2 * 8 + i / 8 % 8 + 1));
    __syncthreads();
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    if (thread >= 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (thread % 32 == 5) {
            TILESCOPE_VALUE(m, 0, (thread - 128) / 32, 0, float(thread));
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const float row = float(thread / 32 * 16 + thread % 32 / 4);
        const std::uint32_t above = twice(row), below = twice(row + 8);
        float c[8] = {};
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile(
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%8,%9}, "
            "%10, "
            "1, 1, 1, 0;"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
            : "r"(above), "r"(below), "l"(descriptor(b, 256, 128)));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        TILESCOPE_FRAGMENT(s, 0, c, WgmmaAccumulator{0, 0, thread});
    }
}

TEST(WgmmaGpu, HoldsTheProductWhereTheHardwarePutsIt) {
    int devices = 0;
    cudaDeviceProp properties = {};
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (properties.major != 9) GTEST_SKIP() << "this GPU has no wgmma";
    Problem problem;
    problem.seqlen_q = problem.block_m = 64;
    problem.seqlen_kv = problem.block_n = 16;
    CaptureOptions options;
    options.selection = parse_selection("stage=s,m", "test");
    options.mode = SinkMode::writers;
    options.threads[Stage::s].fragment = "wgmma_m64";
    Capture capture(problem, options);
    product<<<1, 256>>>(capture.sink());
    const CapturedRun run = capture.finish();
    ASSERT_EQ(run.capture().ended, "completed");
    EXPECT_TRUE(run.capture().stages[int(Stage::s)].conflicts.empty());
    std::vector<float> s(64 * 16);
    ASSERT_TRUE(run.read_tile(Stage::s, TileId(), s));
    for (int i = 0; i < 64 * 16; ++i) {
        EXPECT_EQ(s[std::size_t(i)], float(16 * (i / 16) * (i % 16 + 1))) << i / 16 << ' ' << i % 16;
    }
    const ThreadMap map(problem, Stage::s, run.threads(), "test");
    std::vector<ElementWriter> writers(64 * 16);
    ASSERT_TRUE(run.read_writers(Stage::s, TileId(), writers));
    for (int i = 0; i < 64 * 16; ++i) {
        const Owner owner = map.owner(TileId(), i / 16, i % 16);
        EXPECT_EQ(writers[std::size_t(i)].first_thread, owner.warp * 32 + owner.lane)
            << i / 16 << ' ' << i % 16;
    }
    std::vector<float> m(64);
    ASSERT_TRUE(run.read_tile(Stage::m, TileId(), m));
    for (int warp = 0; warp < 4; ++warp) EXPECT_EQ(m[std::size_t(warp)], float(128 + 32 * warp + 5));
}

}  // namespace
}  // namespace tilescope
