// Fragments as the tensor cores of this GPU lay them out: what a product left in registers is recorded, and
// compared with the product. Every product has a_ik = i and b_kj = j + 1, so that it is k i (j + 1). What the lanes
// keep of its rows is exchanged between them: copies that are the same, and one that is not.

#define DEBUG_DUMP
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <mma.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/schema/error.h"

namespace tilescope {
namespace {

__device__ std::uint32_t two(float a, float b) {
    const __half2 both = __floats2half2_rn(a, b);
    return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// Registers of A: the row of the lane, and the one eight below. Of B: its column.
struct Operands {
    __device__ Operands(int lane, int first_col)
        : above(two(float(lane / 4), float(lane / 4))),
          below(two(float(lane / 4 + 8), float(lane / 4 + 8))),
          right(two(float(first_col + lane / 4 + 1), float(first_col + lane / 4 + 1))) {}
    std::uint32_t above, below, right;
};

__global__ void mma_k16(TILESCOPE_GRID_CONSTANT const Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int lane = int(threadIdx.x) % 32;
    float c[2][4] = {};
    for (int tile = 0; tile < 2; ++tile) {
        const Operands in(lane, 8 * tile);
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%6,%6}, "
            "{%0,%1,%2,%3};"
            : "+f"(c[tile][0]), "+f"(c[tile][1]), "+f"(c[tile][2]), "+f"(c[tile][3])
            : "r"(in.above), "r"(in.below), "r"(in.right));
    }
    TILESCOPE_FRAGMENT(s, 0, c, MmaAccumulator{0, 0, lane});
}

__global__ void mma_k8(TILESCOPE_GRID_CONSTANT const Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int lane = int(threadIdx.x) % 32;
    float c[2][4] = {};
    for (int tile = 0; tile < 2; ++tile) {
        const Operands in(lane, 8 * tile);
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
            : "+f"(c[tile][0]), "+f"(c[tile][1]), "+f"(c[tile][2]), "+f"(c[tile][3])
            : "r"(in.above), "r"(in.below), "r"(in.right));
    }
    TILESCOPE_FRAGMENT(s, 0, c, MmaAccumulator{0, 0, lane});
}

__global__ void mma_half(TILESCOPE_GRID_CONSTANT const Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int lane = int(threadIdx.x) % 32;
    __half c[2][4];
    for (int tile = 0; tile < 2; ++tile) {
        const Operands in(lane, 8 * tile);
        std::uint32_t low = 0, high = 0;
        asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
            : "+r"(low), "+r"(high)
            : "r"(in.above), "r"(in.below), "r"(in.right));
        const __half2 pairs[2] = {*reinterpret_cast<__half2*>(&low), *reinterpret_cast<__half2*>(&high)};
        for (int i = 0; i < 4; ++i)
            c[tile][i] = i % 2 == 0 ? __low2half(pairs[i / 2]) : __high2half(pairs[i / 2]);
    }
    TILESCOPE_FRAGMENT(s, 0, c, MmaAccumulator{0, 0, lane});
}

template <int m, int n, class T>
__global__ void wmma_product(TILESCOPE_GRID_CONSTANT const Sink sink) {
    namespace wmma = nvcuda::wmma;
    __shared__ __align__(32) __half a[m * 16];
    __shared__ __align__(32) __half b[16 * n];
    for (int i = threadIdx.x; i < m * 16; i += 32) a[i] = __float2half(float(i / 16));
    for (int i = threadIdx.x; i < 16 * n; i += 32) b[i] = __float2half(float(i % n + 1));
    __syncwarp();
    wmma::fragment<wmma::matrix_a, m, n, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, m, n, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, m, n, 16, T> sum;
    wmma::load_matrix_sync(left, a, 16);
    wmma::load_matrix_sync(right, b, n);
    wmma::fill_fragment(sum, T(0.0f));
    wmma::mma_sync(sum, left, right, sum);
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    TILESCOPE_FRAGMENT(s, 0, sum, WmmaAccumulator{0, 0});
}

/// Expects the lane that wrote each element to be the one that the named fragment gives it to.
void expect_owners(const CapturedRun& run, int rows, int cols) {
    const ThreadMap map(run.problem(), Stage::s, run.threads(), "test");
    EXPECT_EQ(map.warps(), 1);
    std::vector<ElementWriter> writers(std::size_t(rows * cols));
    ASSERT_TRUE(run.read_writers(Stage::s, TileId(), writers));
    for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
            EXPECT_EQ(writers[std::size_t(row * cols + col)].first_thread, map.owner(TileId(), row, col).lane)
                << row << ' ' << col;
        }
    }
}

/// Runs one warp, and expects k i (j + 1) in each of rows x cols elements, none written twice differently, by
/// the lanes that own them in `fragment`.
void expect_product(int rows, int cols, int depth, void (*kernel)(Sink), const char* name,
                    const char* fragment) {
    SCOPED_TRACE(name);
    Problem problem;
    problem.seqlen_q = problem.block_m = rows;
    problem.seqlen_kv = problem.block_n = cols;
    CaptureOptions options;
    options.selection = parse_selection("stage=s", "test");
    options.mode = SinkMode::writers;
    options.threads[Stage::s].fragment = fragment;
    Capture capture(problem, options);
    kernel<<<1, 32>>>(capture.sink());
    const CapturedRun run = capture.finish();
    ASSERT_EQ(run.capture().ended, "completed");
    const StageCapture& stage = run.capture().stages[int(Stage::s)];
    EXPECT_TRUE(stage.conflicts.empty());
    EXPECT_EQ(stage.elements_out_of_range, 0);
    std::vector<float> s(std::size_t(rows * cols));
    ASSERT_TRUE(run.read_tile(Stage::s, TileId(), s));
    for (int row = 0; row < rows; ++row) {
        for (int col = 0; col < cols; ++col) {
            EXPECT_EQ(s[std::size_t(row * cols + col)], float(depth * row * (col + 1))) << row << ' ' << col;
        }
    }
    expect_owners(run, rows, cols);
}

TEST(FragmentGpu, HoldsTheProductWhereTheHardwarePutsIt) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    expect_product(16, 16, 16, mma_k16, "mma.sync m16n8k16", "mma_m16n8");
    expect_product(16, 16, 8, mma_k8, "mma.sync m16n8k8", "mma_m16n8");
    expect_product(16, 16, 8, mma_half, "mma.sync m16n8k8, half", "mma_m16n8");
    expect_product(16, 16, 16, wmma_product<16, 16, float>, "wmma 16x16, float", "wmma_16x16_f32");
    expect_product(16, 16, 16, wmma_product<16, 16, __half>, "wmma 16x16, half", "wmma_16x16_f16");
    expect_product(32, 8, 16, wmma_product<32, 8, float>, "wmma 32x8, float", "wmma_32x8_f32");
    expect_product(32, 8, 16, wmma_product<32, 8, __half>, "wmma 32x8, half", "wmma_32x8_f16");
    expect_product(8, 32, 16, wmma_product<8, 32, float>, "wmma 8x32, float", "wmma_8x32_f32");
    expect_product(8, 32, 16, wmma_product<8, 32, __half>, "wmma 8x32, half", "wmma_8x32_f16");
}

/// Row maxima 0, 1, ... of two KV tiles, whose copy in lane 6, row 9, is another in the second.
__global__ void copies_of_rows(TILESCOPE_GRID_CONSTANT const Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int lane = int(threadIdx.x) % 32;
    float m[2] = {float(lane / 4), float(lane / 4 + 8)};
    TILESCOPE_FRAGMENT(m, 0, m, MmaRowCopies{0, lane});
    if (lane == 6) m[1] = -1;
    TILESCOPE_FRAGMENT(m, 1, m, MmaRowCopies{0, lane});
}

/// Runs one warp on a block of 16 rows, of which `rows` are part of q, and expects its maxima and the one conflict.
void expect_copies_compared(int rows) {
    SCOPED_TRACE(rows);
    Problem problem;
    problem.block_m = 16;
    problem.seqlen_q = rows;
    problem.block_n = 8;
    problem.seqlen_kv = 16;
    CaptureOptions options;
    options.selection = parse_selection("stage=m", "test");
    Capture capture(problem, options);
    copies_of_rows<<<1, 32>>>(capture.sink());
    const CapturedRun run = capture.finish();
    ASSERT_EQ(run.capture().ended, "completed");
    const auto& conflicts = run.capture().stages[int(Stage::m)].conflicts;
    ASSERT_EQ(conflicts.size(), 1u) << "of the second tile alone";
    EXPECT_GE(conflicts[0].elements, 1);
    EXPECT_LE(conflicts[0].elements, 2) << "to -1, and back where a lane writes after that one";
    EXPECT_EQ(conflicts[0].tile.kv_tile, 1);
    for (const int kv_tile : {0, 1}) {
        std::vector<float> m(std::size_t(problem.block_m), -2);
        TileId tile;
        tile.kv_tile = kv_tile;
        ASSERT_TRUE(run.read_tile(Stage::m, tile, m));
        for (int row = 0; row < rows; ++row) {
            if (kv_tile == 0 || row != 9) {
                EXPECT_EQ(m[std::size_t(row)], float(row));
            }
        }
    }
}

TEST(FragmentGpu, ComparesCopiesOfRowsBetweenLanes) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    expect_copies_compared(16);
    expect_copies_compared(13);
}

}  // namespace
}  // namespace tilescope
