// How fast captures leave the GPU, as ratios of what the machine does without them, measured in the same run:
// bench_drain_gpu [DIRECTORY], /dev/shm unless told. HOOKS.md gives the reasons for the goals.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/capture/memory.cuh"
#include "dump/hook.h"
#include "tests/support/generated_pieces.h"

namespace tilescope {
namespace {

constexpr int rounds = 7;
constexpr int block = 64;
constexpr std::size_t most_bytes = std::size_t(16) << 30;

/// Writes the tiles of q, k, v, s, p and acc of its query block.
__global__ void record(int kv_tiles TILESCOPE_SINK_PARAM(sink)) {
    __shared__ float tile[block * block];
    for (int i = threadIdx.x; i < block * block; i += blockDim.x) tile[i] = float(i);
    __syncthreads();
    TILESCOPE_BLOCK(sink, blockIdx.z, blockIdx.y, blockIdx.x);
    TILESCOPE_TILE(q, 0, tile, block, int(threadIdx.x), int(blockDim.x));
    for (int t = 0; t < kv_tiles; ++t) {
        TILESCOPE_TILE(k, t, tile, block, int(threadIdx.x), int(blockDim.x));
        TILESCOPE_TILE(v, t, tile, block, int(threadIdx.x), int(blockDim.x));
        TILESCOPE_TILE(s, t, tile, block, int(threadIdx.x), int(blockDim.x));
        TILESCOPE_TILE(p, t, tile, block, int(threadIdx.x), int(blockDim.x));
        TILESCOPE_TILE(acc, t, tile, block, int(threadIdx.x), int(blockDim.x));
    }
}

/// Stores 16 bytes a thread, as hooks do.
__global__ void store(uint4* memory, std::size_t quads) {
    const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
    for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < quads; i += step) {
        memory[i] = make_uint4(1, 2, 3, 4);
    }
}

__global__ void compute(long long clocks) {
    const long long begin = clock64();
    while (clock64() - begin < clocks) {}
}

double seconds_of(const std::function<void()>& work) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median of some rounds, after one that is not counted.
double median_of(const std::function<double()>& measure) {
    std::vector<double> values;
    for (int round = 0; round <= rounds; ++round) {
        const double value = measure();
        if (round > 0) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

CaptureOptions options_of(SinkMemory memory) {
    CaptureOptions options;
    options.selection = parse_selection("stage=q,k,v,s,p,acc", "bench_drain_gpu");
    options.max_bytes = most_bytes;
    options.memory = memory;
    return options;
}

void launch(const Problem& problem, const Sink& sink, cudaStream_t stream) {
    const dim3 grid(unsigned(problem.q_blocks()), unsigned(problem.heads));
    record<<<grid, 128, 0, stream>>>(int(problem.kv_tiles()) TILESCOPE_SINK_ARG(sink));
    require_cuda(cudaGetLastError(), "launching a kernel");
}

void synchronize() {
    require_cuda(cudaDeviceSynchronize(), "running a kernel");
}

struct Drain {
    CaptureOptions options = options_of(SinkMemory::device);
    CapturePlan plan;
    std::shared_ptr<CaptureMemory> memory;

    explicit Drain(const Problem& problem) : plan(problem, *options.selection, most_bytes) {
        memory =
            std::make_shared<CaptureMemory>(plan, options, [&] { return RecordedCall(problem, {}, {}, {}); });
    }
    /// Copies all pieces and looks at every tile.
    void run() const {
        const auto contents = piece_contents(plan, copier_of(memory), memory->piece_bytes());
        std::int64_t found = 0, tiles = 0;
        for (const StageInfo& info : stages_of(Direction::forward)) {
            const TileShape shape = tile_shape(plan.problem(), info.stage);
            tiles += plan.capacity(info.stage);
            for (std::int64_t slot = 0; slot < plan.capacity(info.stage); ++slot) {
                found += contents->has_tile({plan.tile_offset(info.stage, slot), shape, shape});
            }
        }
        if (found != tiles) throw std::runtime_error("tiles are missing in what was drained");
    }
};

double bench_pinned_copy(const Drain& drain) {
    constexpr std::size_t part = std::size_t(1) << 30;
    void* host = nullptr;
    require_cuda(cudaHostAlloc(&host, part, cudaHostAllocDefault), "allocating pinned memory");
    const double seconds = median_of([&] {
        return seconds_of([&] {
            for (std::size_t done = 0; done < drain.plan.bytes(); done += part) {
                const std::size_t bytes = std::min(part, drain.plan.bytes() - done);
                require_cuda(cudaMemcpyAsync(host, drain.memory->device_address() + done, bytes,
                                             cudaMemcpyDeviceToHost),
                             "copying");
            }
            synchronize();
        });
    });
    cudaFreeHost(host);
    return seconds;
}

void bench_drain(const Problem& problem) {
    const Drain drain(problem);
    launch(problem, drain.plan.sink(drain.memory->device_address()), nullptr);
    synchronize();
    const double gigabytes = double(drain.plan.bytes()) / 1e9;
    const double copy = bench_pinned_copy(drain);
    const double drained = median_of([&] { return seconds_of([&] { drain.run(); }); });
    std::printf("pinned copy of %.2f GB %6.1f GB/s   drain %6.1f GB/s   %.2f of it (goal: 0.80)\n", gigabytes,
                gigabytes / copy, gigabytes / drained, copy / drained);

    // A launch that fills the GPU and takes as long as the drain.
    cudaDeviceProp properties = {};
    int kilohertz = 0;
    require_cuda(cudaGetDeviceProperties(&properties, 0), "asking for the GPU's properties");
    require_cuda(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, 0), "asking for the clock rate");
    cudaStream_t stream = nullptr;
    require_cuda(cudaStreamCreate(&stream), "creating a stream");
    const auto next_launch = [&] {
        compute<<<unsigned(properties.multiProcessorCount), 1024, 0, stream>>>(
            static_cast<long long>(drained * 1e3 * kilohertz));
    };
    const double kernel = median_of([&] { return seconds_of([&] { next_launch(), synchronize(); }); });
    const double both =
        median_of([&] { return seconds_of([&] { next_launch(), drain.run(), synchronize(); }); });
    std::printf("drain %.3f s, next launch %.3f s, both %.3f s: %.2f of the shorter one is hidden\n", drained,
                kernel, both, (drained + kernel - both) / std::min(drained, kernel));
    cudaStreamDestroy(stream);
}

/// write(2) of the same bytes, 4 MiB at a time, with fsync() as a recording ends.
void write_plainly(const std::string& path, std::size_t bytes) {
    const std::vector<char> part(std::size_t(4) << 20, '?');
    const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool written = descriptor >= 0;
    for (std::size_t left = bytes; written && left > 0;) {
        const ssize_t count = write(descriptor, part.data(), std::min(left, part.size()));
        written = count > 0;
        if (written) left -= std::size_t(count);
    }
    written = written && fsync(descriptor) == 0;
    close(descriptor);
    if (!written) throw std::runtime_error(path + ": cannot be written");
}

void bench_save(const Problem& problem, const std::string& directory) {
    const std::string path = directory + "/bench_drain_gpu." + std::to_string(getpid());
    Capture capture(problem, options_of(SinkMemory::device));
    launch(problem, capture.sink(), nullptr);
    const std::size_t bytes =
        CapturePlan(problem, *options_of(SinkMemory::device).selection, most_bytes).bytes();
    const double plain = median_of([&] {
        const double seconds = seconds_of([&] { write_plainly(path, bytes); });
        std::filesystem::remove(path);
        return seconds;
    });
    const double saved = median_of([&] {
        const double seconds = seconds_of([&] { capture.save(path); });
        std::filesystem::remove(path);
        return seconds;
    });
    const double gigabytes = double(bytes) / 1e9;
    std::printf("%s: write(2) of %.2f GB %5.2f GB/s   save() %5.2f GB/s   %.2f of it (goal: 0.80)\n",
                directory.c_str(), gigabytes, gigabytes / plain, gigabytes / saved, plain / saved);
}

/// Largest resident memory of this process so far, after a reset, in bytes.
std::size_t peak_memory() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.starts_with("VmHWM:")) return std::stoull(line.substr(6)) * 1024;
    }
    throw std::runtime_error("/proc/self/status has no VmHWM");
}

void reset_peak_memory() {
    std::ofstream("/proc/self/clear_refs") << "5";
}

void bench_memory(const Problem& problem, const std::string& directory) {
    const std::string path = directory + "/bench_drain_gpu." + std::to_string(getpid());
    Capture capture(problem, options_of(SinkMemory::device));
    launch(problem, capture.sink(), nullptr);
    synchronize();
    reset_peak_memory();
    const std::size_t before = peak_memory();
    capture.save(path);
    const double mebibyte = double(1 << 20);
    std::printf(
        "save() of %.2f GiB takes %.0f MiB of host memory, %.0f MiB with what the process had (goal: "
        "1024, whatever its size)\n",
        double(std::filesystem::file_size(path)) / mebibyte / 1024, double(peak_memory() - before) / mebibyte,
        double(peak_memory()) / mebibyte);
    std::filesystem::remove(path);
}

void bench_mapped(const Problem& problem) {
    Capture capture(problem, options_of(SinkMemory::mapped));
    const CapturePlan plan(problem, *options_of(SinkMemory::mapped).selection, most_bytes);
    const Sink sink = capture.sink();
    // The tables in front of the tiles stay as they are.
    auto* const tiles = reinterpret_cast<uint4*>(sink.stages[int(Stage::q)].words);
    const std::size_t bytes = plan.bytes() - plan.head_bytes();
    const double plain = median_of([&] {
        return seconds_of([&] {
            store<<<4096, 256>>>(tiles, bytes / sizeof(uint4));
            synchronize();
        });
    });
    const double hooked = median_of([&] {
        return seconds_of([&] {
            launch(problem, sink, nullptr);
            synchronize();
        });
    });
    const double gigabytes = double(bytes) / 1e9;
    std::printf("mapped memory: plain stores %5.1f GB/s   hooks %5.1f GB/s   %.2f of it (goal: 0.80)\n",
                gigabytes / plain, gigabytes / hooked, plain / hooked);
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    using namespace tilescope;
    try {
        const std::string directory = argc > 1 ? argv[1] : "/dev/shm";
        bench_drain(test::large_problem(102));
        bench_mapped(test::large_problem(26));
        bench_save(test::large_problem(26), directory);
        bench_memory(test::large_problem(102), directory);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_drain_gpu: %s\n", error.what());
        return 2;
    }
}
