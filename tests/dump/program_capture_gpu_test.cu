// Hooks of declared kernels on a GPU: the kernel of HOOKS.md, and fragments of mma.sync.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <program_hooks.cuh>
#include <vector>

#include "dump/program_file.h"
#include "dump/schema/error.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;

class ProgramCaptureGpu : public testing::Test {
 protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    }
};

/// Memory that both sides see, with numbers that sums of them hold exactly.
class ManagedNumbers {
 public:
    explicit ManagedNumbers(int count) : count_(count) {
        cudaMallocManaged(&data_, count * sizeof(float));
        for (int i = 0; i < count; ++i) data_[i] = float((i * 37 + count) % 17 - 8) / 4;
    }
    ~ManagedNumbers() { cudaFree(data_); }
    ManagedNumbers(const ManagedNumbers&) = delete;
    ManagedNumbers& operator=(const ManagedNumbers&) = delete;

    float* get() const { return data_; }
    int size() const { return count_; }

 private:
    float* data_ = nullptr;
    int count_;
};

std::vector<float> floats_of(const ProgramTensor& tensor) {
    std::vector<float> numbers(tensor.bits.size() / sizeof(float));
    std::memcpy(numbers.data(), tensor.bits.data(), tensor.bits.size());
    return numbers;
}

constexpr int row_count = 37, col_count = 21, k_count = 70, k_blocks = 3;

float linear_state(const ManagedNumbers& a, const ManagedNumbers& w, int block, int n, int m) {
    float sum = 0;
    for (int k = 0; k < std::min(k_count, (block + 1) * 32); ++k)
        sum += a.get()[n * k_count + k] * w.get()[m * k_count + k];
    return sum;
}

TEST_F(ProgramCaptureGpu, RecordsTheKernelOfThePage) {
    const ManagedNumbers a(row_count * k_count), w(col_count * k_count), bias(col_count),
        y(row_count * col_count);
    const std::string path = testing::TempDir() + "program_hooks.h5";
    record_linear(a.get(), w.get(), bias.get(), y.get(), row_count, col_count, k_count, path);
    const ProgramRecording read = read_program_recording(path);
    EXPECT_EQ(read.text, linear::text());
    EXPECT_FALSE(read.provenance.device.empty());
    const ProgramTensor& acc = read.stages.at("acc");
    EXPECT_EQ(acc.shape, (std::vector<std::int64_t>{k_blocks, row_count, col_count}));
    EXPECT_EQ(acc.conflicts, 0);
    const std::vector<float> got = floats_of(acc);
    for (int block = 0; block < k_blocks; ++block)
        for (int n = 0; n < row_count; ++n)
            for (int m = 0; m < col_count; ++m)
                ASSERT_EQ(got[(block * row_count + n) * col_count + m], linear_state(a, w, block, n, m))
                    << block << " " << n << " " << m;
    const std::vector<float> stored = floats_of(read.stages.at("y"));
    for (int i = 0; i < row_count * col_count; ++i) ASSERT_EQ(stored[i], y.get()[i]);
}

TEST_F(ProgramCaptureGpu, KeepsWhatIsSelected) {
    const ManagedNumbers a(row_count * k_count), w(col_count * k_count), bias(col_count),
        y(row_count * col_count);
    for (const bool is_mapped : {false, true}) {
        ProgramCaptureOptions options;
        options.selection = "n=1:k=1-2";
        options.is_mapped = is_mapped;
        ProgramCapture capture(linear::text(), options);
        capture.input("a", a.get(), {row_count, k_count});
        capture.input("w", w.get(), {col_count, k_count});
        capture.input("bias", bias.get(), {col_count});
        linear_kernel<<<dim3(2, 3), dim3(16, 16)>>>(a.get(), w.get(), bias.get(), y.get(), row_count,
                                                    col_count,
                                                    k_count TILESCOPE_PROGRAM_SINK_ARG(capture.sink()));
        const ProgramRecording recording = capture.finish();
        EXPECT_EQ(recording.stages.size(), 1u) << "y has no hook";
        const ProgramTensor& acc = recording.stages.at("acc");
        EXPECT_EQ(acc.first, (std::vector<std::int64_t>{1, 16, 0}));
        EXPECT_EQ(acc.shape, (std::vector<std::int64_t>{2, 16, col_count}));
        const std::vector<float> got = floats_of(acc);
        for (int i = 0; i < int(got.size()); ++i)
            ASSERT_EQ(got[i],
                      linear_state(a, w, 1 + i / (16 * col_count), 16 + i / col_count % 16, i % col_count))
                << i;
    }
}

TILESCOPE_PROGRAM(tiled, R"(
    axes   n: rows by 16; m: cols by 8
    input  a[n, m]
    stage  c[n, m] = a
    stage  t[n, m] = a
    stage  r[n] = max(m: a)
    output c
)");

/// A warp a tile of 16 x 8: the accumulator of an mma whose element is its address, the tile in memory, and the last numbers of rows.
__global__ void tiles_kernel(const float* a, int tile_rows, int tile_cols,
                             int wrong_lane TILESCOPE_PROGRAM_SINK_PARAM(sink)) {
    TILESCOPE_PROGRAM_HOOKS(sink, tiled);
    const int n0 = blockIdx.y * 16, m0 = blockIdx.x * 8, lane = threadIdx.x;
    const auto at = [&](int n, int m) {
        return n < tile_rows && m < tile_cols ? a[n * tile_cols + m] : -1.0f;
    };
    float acc[4];
    for (int i = 0; i < 4; ++i) {
        const HookPlace place = fragments::MmaAccumulator{n0, m0, lane}(i);
        acc[i] = at(place.row, place.col);
    }
    TILESCOPE_PROGRAM_FRAGMENT(c, (n0, m0), acc, MmaAccumulator{0, 0, lane});
    TILESCOPE_PROGRAM_TILE(t, (n0, m0), 16, 8, a + n0 * tile_cols + m0, tile_cols, lane, 32);
    const float last[2] = {at(n0 + lane / 4, tile_cols - 1) + (lane == wrong_lane ? 1 : 0),
                           at(n0 + lane / 4 + 8, tile_cols - 1)};
    if (blockIdx.x == 0) TILESCOPE_PROGRAM_ROWS(r, (n0), last, MmaRowCopies{0, lane});
}

ProgramRecording recorded_tiles(const ManagedNumbers& a, int wrong_lane) {
    ProgramCapture capture(tiled::text());
    capture.input("a", a.get(), {row_count, col_count});
    tiles_kernel<<<dim3(3, 3), 32>>>(a.get(), row_count, col_count,
                                     wrong_lane TILESCOPE_PROGRAM_SINK_ARG(capture.sink()));
    return capture.finish();
}

TEST_F(ProgramCaptureGpu, RecordsFragmentsTilesAndRows) {
    const ManagedNumbers a(row_count * col_count);
    const ProgramRecording recording = recorded_tiles(a, -1);
    const std::vector<float> c = floats_of(recording.stages.at("c")), t = floats_of(recording.stages.at("t")),
                             r = floats_of(recording.stages.at("r"));
    for (int i = 0; i < row_count * col_count; ++i) {
        ASSERT_EQ(c[i], a.get()[i]) << i;
        ASSERT_EQ(t[i], a.get()[i]) << i;
    }
    for (int n = 0; n < row_count; ++n) ASSERT_EQ(r[n], a.get()[n * col_count + col_count - 1]) << n;
    EXPECT_EQ(recording.stages.at("r").conflicts, 0);
    EXPECT_GT(recorded_tiles(a, 5).stages.at("r").conflicts, 0) << "a lane's copy differs";
}

TEST_F(ProgramCaptureGpu, RefusesWhatHooksCannotHaveMeant) {
    const ManagedNumbers a(row_count * col_count);
    ProgramCapture capture(tiled::text());
    capture.input("a", a.get(), {row_count, col_count});
    // One tile more along m than there are.
    tiles_kernel<<<dim3(4, 3), 32>>>(a.get(), row_count, col_count,
                                     -1 TILESCOPE_PROGRAM_SINK_ARG(capture.sink()));
    const std::string error = error_of([&] { capture.finish(); });
    EXPECT_NE(error.find("does not have"), std::string::npos) << error;
    ProgramCapture nothing(tiled::text());
    nothing.input("a", a.get(), {row_count, col_count});
    nothing.sink();
    EXPECT_NE(error_of([&] { nothing.finish(); }).find("no hook wrote"), std::string::npos);
    EXPECT_NE(error_of([&] { nothing.input("b", a.get(), {row_count}); }).find("no such input"),
              std::string::npos);
}

}  // namespace
}  // namespace tilescope
