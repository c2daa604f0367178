#pragma once

// What measures on the GPU share: how often is measured, and what the head of the file says.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tilescope {

inline constexpr int least_measured = 20;

struct Sampling {
    std::uint64_t seed = 1;
    int samples = 200;  ///< least_measured or more
    double warmup_ms = 300;
    double most_seconds = 20;  ///< of a configuration; least_measured samples are taken all the same
};

struct Samples {
    std::vector<double> microseconds;  ///< of one launch
    double sm_clock_mhz = 0;           ///< right after them
    std::size_t launches = 0;          ///< of a sample
};

class Graph;

/// Times replays of a graph of `launches` launches. Errors: Error when the GPU fails.
Samples time_graph(const Graph& graph, std::size_t launches, const Sampling& sampling);

/// The lines that a CSV file begins with; `method` says how its latencies were measured.
std::string metadata_lines(const std::string& method);

/// What the comment begins with that sums up the samples of a configuration.
inline constexpr const char* percentiles_line = "# microseconds of ";

/// The rows of one configuration: `key`, then sample, launches, sm_clock_mhz and latency_us; and percentiles_line.
std::string sample_rows(const std::string& key, const Samples& samples);

/// A cudaDeviceAttr of the current GPU.
int device_attribute(int attribute);

}  // namespace tilescope
