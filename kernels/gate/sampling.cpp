#include "kernels/gate/sampling.h"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>

#include "kernels/gate/driver_version.h"
#include "kernels/gate/sm_clock.h"
#include "kernels/gate/statistics.h"
#include "kernels/gate/timing.cuh"

namespace tilescope {

namespace {

/// Replays the graph for the warm-up, once at least; microseconds of a replay.
double warm_up(const Graph& graph, double warmup_ms) {
    const Event begin;
    begin.record();
    double passed = 0;
    int replays = 0;
    do {
        graph.replay();
        const Event now;
        now.record();
        passed = microseconds_between(begin, now);
        ++replays;
    } while (passed < warmup_ms * 1000);
    return passed / replays;
}

}  // namespace

Samples time_graph(const Graph& graph, std::size_t launches, const Sampling& sampling) {
    const double affordable = sampling.most_seconds * 1e6 / warm_up(graph, sampling.warmup_ms);
    const auto count = std::size_t(std::clamp(affordable, double(least_measured), double(sampling.samples)));
    // All are enqueued before the first is waited for, so that the GPU is never idle between two; the first
    // replay gives the host time to enqueue the next.
    std::vector<Event> events(count + 1);
    for (const Event& event : events) {
        graph.replay();
        event.record();
    }
    Samples samples;
    samples.launches = launches;
    for (std::size_t i = 1; i < events.size(); ++i) {
        samples.microseconds.push_back(microseconds_between(events[i - 1], events[i]) / double(launches));
    }
    samples.sm_clock_mhz = measure_sm_clock_mhz();
    return samples;
}

std::string metadata_lines(const std::string& method) {
    cudaDeviceProp device = {};
    int runtime = 0;
    check_cuda(cudaGetDeviceProperties(&device, 0), "asking for the GPU's name");
    check_cuda(cudaRuntimeGetVersion(&runtime), "asking for CUDA's version");
    const std::string driver = driver_version();
    return fmt::format(
        "# device: {}\n{}# cuda_runtime: {}\n# l2_bytes: {}\n# max_sm_clock_mhz: {}\n# time: {}\n# method: "
        "{}\n",
        device.name, driver.empty() ? "" : "# driver: " + driver + "\n", runtime, device.l2CacheSize,
        device_attribute(cudaDevAttrClockRate) / 1000, time_now(), method);
}

std::string sample_rows(const std::string& key, const Samples& samples) {
    std::string rows;
    for (std::size_t i = 0; i < samples.microseconds.size(); ++i) {
        rows += fmt::format("{},{},{},{:.1f},{:.4f}\n", key, i, samples.launches, samples.sm_clock_mhz,
                            samples.microseconds[i]);
    }
    std::vector<double> sorted = samples.microseconds;
    std::ranges::sort(sorted);
    const Percentiles percentiles = percentiles_of(sorted);
    return rows + fmt::format("{}{} p50 {:.4f} p90 {:.4f} p99 {:.4f}\n", percentiles_line, key,
                              percentiles.p50, percentiles.p90, percentiles.p99);
}

int device_attribute(int attribute) {
    int device = 0;
    int value = 0;
    check_cuda(cudaGetDevice(&device), "choosing the GPU");
    check_cuda(cudaDeviceGetAttribute(&value, cudaDeviceAttr(attribute), device),
               "asking for a figure of the GPU");
    return value;
}

}  // namespace tilescope
