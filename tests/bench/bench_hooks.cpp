// What hooks cost on the GPU, as ratios of times measured in one run: the table of dump/HOOKS.md.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/recording/capture_plan.h"
#include "kernels/attention/registry.h"
#include "kernels/run/device_arrays.cuh"
#include "kernels/run/launch_times.cuh"
#include "kernels/run/options.h"
#include "kernels/run/request.h"

namespace tilescope {
namespace {

constexpr int rounds = 15;
constexpr std::size_t most_bytes = std::size_t(64) << 30;

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

/// What a kernel takes without hooks, and what the machine takes for its elements at least. Milliseconds.
struct Limits {
    double plain = 0;
    double writing = 0;  ///< its bytes, at 60 % of the bandwidth of memset
    double issuing = 0;  ///< five instructions an element, on every scheduler
};

struct Variant {
    const char* name;
    const char* selection;  ///< nullptr: a kernel with hooks and no sink
    SinkMode mode;
    /// The project's goal for the ratio; nullptr where there is none. HOOKS.md gives the reasons.
    double (*goal)(const Limits& limits);
};

double one_head(const Limits& of) {
    return std::max(1.1, 1 + of.writing / of.plain);
}

constexpr Variant variants[] = {
    {"nothing selected", nullptr, SinkMode::tiles, [](const Limits&) { return 1.03; }},
    {"the first head of 64", "batch=0:head=0", SinkMode::tiles, one_head},
    {"the last", "batch=3:head=15", SinkMode::tiles, one_head},
    {"m and l", "stage=m,l", SinkMode::tiles, nullptr},
    {"everything", "", SinkMode::tiles, [](const Limits& of) { return 1 + of.writing / of.plain; }},
    {"everything, conflicts counted", "", SinkMode::checked, nullptr},
    {"statistics of l and o", "stage=l,o", SinkMode::statistics, [](const Limits&) { return 1.15; }},
    {"statistics of everything", "", SinkMode::statistics,
     [](const Limits& of) { return std::max(1.5, 1 + of.issuing / of.plain); }},
};

double write_bandwidth() {
    constexpr std::size_t bytes = std::size_t(4) << 30;
    const DeviceArray target(bytes, std::byte(0));
    const auto write = [&] { check_cuda(cudaMemsetAsync(target.data(), 0, bytes), "writing"); };
    return double(bytes) / median_times({{write}}, rounds).front();
}

/// Instructions of threads that the GPU issues in a millisecond at its full clock: 128 lanes a multiprocessor.
double issued_per_ms() {
    int multiprocessors = 0;
    int khz = 0;
    check_cuda(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
               "asking the device");
    check_cuda(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "asking the device");
    constexpr double lanes = 128;
    return lanes * multiprocessors * double(khz);
}

/// What a row is of: a kernel, and a configuration where it is not the default of the call.
struct Benched {
    std::string_view kernel;
    const char* config;
};
constexpr Benched all_benched[] = {
    {"scalar", ""},        {"wmma", ""}, {"stable", ""},          {"fast", ""},
    {"fast", "128x128x2"}, {"fp8", ""},  {"fp8", "64x64x1xe4m3"}, {"cublas", ""}};

/// A row of the table.
std::string bench(const Benched& benched, double bytes_per_ms) {
    const KernelInfo& kernel = *find_kernel(benched.kernel);
    RunOptions options;
    options.kernel = kernel.name;
    options.config = benched.config;
    options.engine = "cuda";
    options.shape = {4, 16, 2048, 2048, 64};
    const RunRequest request = make_request(options);
    const Problem& problem = request.problem;
    const DeviceArrays arrays(request, make_inputs(problem, all_input_kinds()[0], 1), std::byte(0xff));

    std::vector<std::optional<SinkOnGpu>> sinks(std::size(variants));
    std::vector<TimedLaunch> launches = {
        {[&] { kernel.cuda.plain->launch(arrays.args, request.config, Fault::none, Sink()); },
         stream_without_hooks}};
    for (std::size_t i = 0; i < std::size(variants); ++i) {
        if (variants[i].selection) sinks[i].emplace(problem, variants[i].selection, variants[i].mode);
        const Sink sink = sinks[i] ? sinks[i]->sink : Sink();
        launches.push_back(
            {[&, sink] { kernel.cuda.hooked->launch(arrays.args, request.config, Fault::none, sink); }});
    }
    const std::vector<double> times = median_times(launches, rounds);

    std::string row =
        fmt::format("| `{}` {} | {:.3f} ms |", kernel.name, config_name(request.config), times[0]);
    double most = 0;
    for (const std::optional<SinkOnGpu>& sink : sinks) most = std::max(most, sink ? sink->bytes() : 0.0);
    constexpr double instructions = 5;
    const double elements = most / sizeof(float);
    for (std::size_t i = 0; i < std::size(variants); ++i) {
        const double bytes = sinks[i] ? sinks[i]->bytes() : 0;
        row += fmt::format(" {:.3f}", times[i + 1] / times[0]);
        if (variants[i].goal) {
            row += fmt::format(" ({:.2f})", variants[i].goal({times[0], bytes / (0.6 * bytes_per_ms),
                                                              instructions * elements / issued_per_ms()}));
        }
        row += " |";
    }
    return row + fmt::format(" {:.2f} GiB |", most / double(1 << 30));
}

void run() {
    const double bytes_per_ms = write_bandwidth();
    fmt::print("(4,16,2048,64), medians of {} rounds; memory is written at {:.0f} GB/s\n\n", rounds,
               bytes_per_ms / 1e6);
    std::string head = "| kernel | without hooks |";
    std::string line = "|---|---|";
    for (const Variant& variant : variants) {
        head += fmt::format(" {} |", variant.name);
        line += "---|";
    }
    fmt::print("{} everything is |\n{}---|\n", head, line);
    for (const Benched& benched : all_benched) {
        const std::string reason = why_no_gpu(*find_kernel(benched.kernel));
        fmt::print("{}\n", reason.empty() ? bench(benched, bytes_per_ms)
                                          : fmt::format("| `{}` | not run: {} |", benched.kernel, reason));
        std::fflush(stdout);
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
