// What hooks cost on the GPU, as ratios of times measured in one run: the table of dump/HOOKS.md.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/capture_plan.h"
#include "kernels/device_arrays.cuh"
#include "kernels/registry.h"
#include "kernels/run_options.h"
#include "kernels/run_request.h"

namespace tilescope {
namespace {

constexpr int rounds = 15;
constexpr std::size_t most_bytes = std::size_t(64) << 30;

/// Milliseconds of what is enqueued in the default stream.
class Stopwatch {
 public:
    Stopwatch() {
        check_cuda(cudaEventCreate(&begin_), "creating an event");
        check_cuda(cudaEventCreate(&end_), "creating an event");
    }
    ~Stopwatch() {
        cudaEventDestroy(begin_);
        cudaEventDestroy(end_);
    }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

    double time(const std::function<void()>& work) const {
        check_cuda(cudaEventRecord(begin_), "timing");
        work();
        check_cuda(cudaEventRecord(end_), "timing");
        check_cuda(cudaEventSynchronize(end_), "running a kernel");
        float ms = 0;
        check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "timing");
        return double(ms);
    }

 private:
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

/// Memory of a plan on the GPU, with its tables.
class SinkOnGpu {
 public:
    SinkOnGpu(const Problem& problem, const char* selection, SinkMode mode)
        : plan_(problem, parse_selection(selection, "bench_hooks"), most_bytes, mode),
          memory_(plan_.bytes(), std::byte(0)) {
        check_cuda(
            cudaMemcpy(memory_.data(), plan_.head().data(), plan_.head_bytes(), cudaMemcpyHostToDevice),
            "copying the tables");
        sink = plan_.sink(static_cast<std::byte*>(memory_.data()));
    }
    double bytes() const { return double(plan_.bytes()); }

    Sink sink;

 private:
    CapturePlan plan_;
    DeviceArray memory_;
};

struct Variant {
    const char* name;
    const char* selection;
    SinkMode mode;
    /// What is asked of it, from the plain time in milliseconds and the bytes captured.
    std::function<double(double, double)> allowed;
};

double write_bandwidth(const Stopwatch& stopwatch) {
    constexpr std::size_t bytes = std::size_t(4) << 30;
    const DeviceArray target(bytes, std::byte(0));
    std::vector<double> times;
    for (int round = 0; round < rounds; ++round) {
        times.push_back(
            stopwatch.time([&] { check_cuda(cudaMemsetAsync(target.data(), round, bytes), "writing"); }));
    }
    return double(bytes) / median(times);
}

void bench(const KernelInfo& kernel, const Stopwatch& stopwatch, double bytes_per_ms) {
    const RunRequest request = make_request(parse_options(
        {"--kernel", std::string(kernel.name), "--engine", "cuda", "--shape", "4,16,2048,2048,64"}));
    const Problem& problem = request.problem;
    const DeviceArrays arrays(request, make_inputs(problem, all_input_kinds()[0], 1), std::byte(0xff));

    const auto percent = [](double more) {
        return [more](double plain, double) { return plain * (1 + more / 100); };
    };
    const auto at_half_bandwidth = [bytes_per_ms](double plain, double bytes) {
        return plain + bytes / (bytes_per_ms / 2);
    };
    const Variant variants[] = {
        {"nothing selected", nullptr, SinkMode::tiles, percent(3)},
        {"one head of 64", "batch=0:head=0", SinkMode::tiles, nullptr},
        {"row statistics m, l", "stage=m,l", SinkMode::tiles, nullptr},
        {"everything", "", SinkMode::tiles, at_half_bandwidth},
        {"everything, conflicts counted", "", SinkMode::checked, nullptr},
        {"statistics of l and o", "stage=l,o", SinkMode::statistics, percent(15)},
        {"statistics of everything", "", SinkMode::statistics, percent(15)},
    };
    // One after the other in every round, so that all share what else happens on the machine.
    std::vector<SinkOnGpu> sinks;
    sinks.reserve(std::size(variants));
    std::vector<std::vector<double>> times(std::size(variants) + 1);
    for (const Variant& variant : variants) {
        if (variant.selection != nullptr) sinks.emplace_back(problem, variant.selection, variant.mode);
    }
    for (int round = -1; round < rounds; ++round) {
        std::vector<double> once = {
            stopwatch.time([&] { kernel.cuda.without_hooks(arrays.args, request.config); })};
        std::size_t next = 0;
        for (const Variant& variant : variants) {
            const Sink sink = variant.selection == nullptr ? Sink() : sinks[next++].sink;
            once.push_back(stopwatch.time([&] { kernel.cuda.healthy(arrays.args, request.config, sink); }));
        }
        for (std::size_t i = 0; round >= 0 && i < once.size(); ++i) times[i].push_back(once[i]);
    }
    const double plain = median(times[0]);
    fmt::print("{:<8} {:<30} {:8.3f} ms\n", kernel.name, "without hooks", plain);
    std::size_t next = 0;
    for (std::size_t i = 0; i < std::size(variants); ++i) {
        const double bytes = variants[i].selection == nullptr ? 0 : sinks[next++].bytes();
        const double time = median(times[i + 1]);
        fmt::print("{:<8} {:<30} {:8.3f} ms {:7.3f} x  {:6.2f} GiB", kernel.name, variants[i].name, time,
                   time / plain, bytes / double(1 << 30));
        if (variants[i].allowed) fmt::print("   asked: {:.3f} ms", variants[i].allowed(plain, bytes));
        fmt::print("\n");
    }
}

void run() {
    const Stopwatch stopwatch;
    const double bytes_per_ms = write_bandwidth(stopwatch);
    fmt::print("(4,16,2048,64), medians of {}; memory is written at {:.0f} GB/s\n", rounds,
               bytes_per_ms / 1e6);
    for (const KernelInfo& kernel : all_kernels()) {
        const std::string reason = why_no_gpu(kernel);
        if (reason.empty()) {
            bench(kernel, stopwatch, bytes_per_ms);
        } else {
            fmt::print("{}: not run ({})\n", kernel.name, reason);
        }
    }
}

}  // namespace
}  // namespace tilescope

int main() {
    try {
        tilescope::run();
    } catch (const std::exception& error) {
        fmt::print(stderr, "bench_hooks: {}\n", error.what());
        return 2;
    }
}
