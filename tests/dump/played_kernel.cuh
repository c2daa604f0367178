#pragma once

// A kernel that writes every stage, and how the tests of captures on the GPU run it.

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "tests/dump/played_run.h"
#include "tests/dump/small_problem.h"

namespace tilescope::test {

enum class Ending { returns, traps, writes_to_null, never_ends };

static __device__ void fill(float* tile, Stage stage, int kv_tile, int rows, int cols) {
    const TileId id = {blockIdx.z, blockIdx.y, blockIdx.x, kv_tile};
    __syncthreads();
    for (int i = threadIdx.x; i < rows * cols; i += blockDim.x) {
        tile[i] = value_of(stage, id, i / cols, i % cols);
    }
    __syncthreads();
}

/// Writes every stage of its query block, from divergent threads, then ends.
static __global__ void play(Ending ending, volatile int* nowhere TILESCOPE_SINK_PARAM(sink)) {
    __shared__ float tile[5 * 8];
    const int thread = int(threadIdx.x);
    const int threads = int(blockDim.x);
    TILESCOPE_BLOCK(sink, blockIdx.z, blockIdx.y, blockIdx.x);
    fill(tile, Stage::q, 0, 4, 8);
    TILESCOPE_TILE(q, 0, tile, 8, thread, threads);
    for (int t = 0; t < 3; ++t) {
        const TileId id = {blockIdx.z, blockIdx.y, blockIdx.x, t};
        fill(tile, Stage::k, t, 5, 8);
        TILESCOPE_TILE(k, t, tile, 8, thread, threads);
        fill(tile, Stage::v, t, 5, 7);
        TILESCOPE_TILE(v, t, tile, 7, thread, threads);
        fill(tile, Stage::acc, t, 4, 7);
        TILESCOPE_TILE(acc, t, tile, 7, thread, threads);
        for (int i = thread; i < 4 * 5; i += threads) {
            TILESCOPE_VALUE(s, t, i / 5, i % 5, value_of(Stage::s, id, i / 5, i % 5));
            TILESCOPE_VALUE(p, t, i / 5, i % 5, value_of(Stage::p, id, i / 5, i % 5));
        }
        if (thread % 16 == 3 && thread < 64) {
            TILESCOPE_VALUE(m, t, thread / 16, 0, value_of(Stage::m, id, thread / 16, 0));
            TILESCOPE_VALUE(l, t, thread / 16, 0, value_of(Stage::l, id, thread / 16, 0));
        }
    }
    fill(tile, Stage::o, 0, 4, 7);
    TILESCOPE_TILE(o, 0, tile, 7, thread, threads);
    if (thread < 4) {
        const TileId id = {blockIdx.z, blockIdx.y, blockIdx.x, 0};
        TILESCOPE_VALUE(lse, 0, thread, 0, value_of(Stage::lse, id, thread, 0));
    }
    __syncthreads();
    if (ending == Ending::traps) __trap();
    if (ending == Ending::writes_to_null) *nowhere = 1;
    if (ending != Ending::never_ends) return;
    __threadfence_system();
    for (volatile int i = 0;; i = i + 1) {}
}

// A file of each process: tests run at once.
inline std::string sink_file() {
    return "/dev/shm/capture_gpu_test." + std::to_string(getpid()) + ".sink";
}

inline CaptureOptions options_of(SinkMemory memory, const char* selection = "") {
    CaptureOptions options;
    options.memory = memory;
    options.sink_file = sink_file();
    options.selection = parse_selection(selection, "test");
    options.provenance.kernel = "play";
    return options;
}

inline void launch(const Capture& capture, dim3 grid, Ending ending = Ending::returns) {
    play<<<grid, 64>>>(ending, nullptr TILESCOPE_SINK_ARG(capture.sink()));
}

template <class Element>
struct DeviceArray {
    explicit DeviceArray(const std::vector<Element>& host) {
        EXPECT_EQ(cudaMalloc(&data, host.size() * sizeof(Element)), cudaSuccess);
        EXPECT_EQ(cudaMemcpy(data, host.data(), host.size() * sizeof(Element), cudaMemcpyHostToDevice),
                  cudaSuccess);
    }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    ~DeviceArray() { cudaFree(data); }
    Element* data = nullptr;
};

/// The plan that a capture of the small problem follows.
inline CapturePlan plan_of(const CaptureOptions& options) {
    return CapturePlan(small_problem(), *options.selection, options.max_bytes);
}

inline constexpr dim3 all_blocks(3, 6, 2);

class CapturesOnGpu : public testing::TestWithParam<SinkMemory> {
 protected:
    void SetUp() override {
        int devices = 0;
        if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
        testing::FLAGS_gtest_death_test_style = "threadsafe";
    }
    void TearDown() override { std::filesystem::remove(sink_file()); }
};

inline std::string name_of(const testing::TestParamInfo<SinkMemory>& info) {
    constexpr const char* names[] = {"device", "mapped", "file"};
    return names[int(info.param)];
}

}  // namespace tilescope::test
