// A process that is killed while its kernel writes to a sink file: what is left, 200 times at random moments.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/reader.h"
#include "dump/schema/error.h"

namespace tilescope {
namespace {

constexpr int kills = 200;
constexpr int kv_tiles = 64;
constexpr int q_blocks = 8;
constexpr int rows = 16;
constexpr int cols = 32;

__host__ __device__ float value_of(int q_block, int kv_tile, int element) {
    return float((q_block * kv_tiles + kv_tile) * rows * cols + element);
}

/// Writes tile after tile, about a millisecond each.
__global__ void write_slowly(TILESCOPE_GRID_CONSTANT const Sink sink) {
    __shared__ float tile[rows * cols];
    TILESCOPE_BLOCK(sink, 0, 0, blockIdx.x);
    for (int t = 0; t < kv_tiles; ++t) {
        for (int i = int(threadIdx.x); i < rows * cols; i += int(blockDim.x)) {
            tile[i] = value_of(int(blockIdx.x), t, i);
        }
        __syncthreads();
        TILESCOPE_TILE(s, t, tile, cols, threadIdx.x, blockDim.x);
        __syncthreads();
        __nanosleep(1000000);
    }
}

/// What the killed process does.
int capture_into(const char* path) {
    Problem problem;
    problem.seqlen_q = q_blocks * rows;
    problem.seqlen_kv = kv_tiles * cols;
    problem.block_m = rows;
    problem.block_n = cols;
    CaptureOptions options;
    options.memory = SinkMemory::file;
    options.sink_file = path;
    options.selection = parse_selection("stage=s", "test");
    Capture capture(problem, options);
    write_slowly<<<q_blocks, 64>>>(capture.sink());
    capture.finish();
    return 0;
}

/// Elements that are written, for each tile; every one of them is the right one.
std::vector<int> written_elements(const std::string& path) {
    const std::unique_ptr<Recording> left = open_recording(path);
    std::vector<int> written;
    std::vector<float> values(rows * cols);
    for (int b = 0; b < q_blocks; ++b) {
        for (int t = 0; t < kv_tiles; ++t) {
            int count = 0;
            if (left->read_tile(Stage::s, {0, 0, b, t}, values)) {
                for (int i = 0; i < rows * cols; ++i) {
                    if (is_unwritten(values[std::size_t(i)])) continue;
                    EXPECT_EQ(values[std::size_t(i)], value_of(b, t, i));
                    ++count;
                }
            }
            written.push_back(count);
        }
    }
    return written;
}

pid_t start(const std::string& path) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("CUDA_VISIBLE_DEVICES", "0", 0);  // each further GPU takes longer to start
        execl("/proc/self/exe", "killed_gpu_test", "--capture-into", path.c_str(), nullptr);
        _exit(127);
    }
    return child;
}

TEST(KilledGpu, TilesThatWereWrittenAreThere) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const std::string path = "/dev/shm/killed_gpu_test." + std::to_string(getpid()) + ".sink";
    int empty = 0, partial = 0, whole = 0;
    for (int kill_number = 0; kill_number < kills && !HasFailure(); ++kill_number) {
        std::filesystem::remove(path);
        const pid_t child = start(path);
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (!std::filesystem::exists(path)) {
            ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "the sink file does not appear";
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        // The kernel begins when the file is registered with the GPU.
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 400000));
        const std::vector<int> before = written_elements(path);
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        const std::vector<int> after = written_elements(path);
        int elements = 0;
        for (std::size_t tile = 0; tile < after.size(); ++tile) {
            EXPECT_GE(after[tile], before[tile]) << "tile " << tile << " lost what it had";
            elements += after[tile];
        }
        empty += elements == 0;
        whole += elements == q_blocks * kv_tiles * rows * cols;
        partial += elements > 0 && elements < q_blocks * kv_tiles * rows * cols;
    }
    std::filesystem::remove(path);
    std::printf("seed %u: %d kills: nothing written %d, a part %d, everything %d\n", seed, kills, empty,
                partial, whole);
    EXPECT_GT(partial, kills / 20);
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    if (argc == 3 && std::string(argv[1]) == "--capture-into") return tilescope::capture_into(argv[2]);
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
}
