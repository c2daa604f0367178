#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilescope {

inline constexpr int least_measured = 20;

/// What to measure: one kernel, each shape with each mask.
struct MeasureOptions {
    std::string kernel;
    std::string config;               ///< empty: the default of the head_dim
    std::vector<std::string> shapes;  ///< "B,H,Sq,Skv,D"
    std::optional<std::int64_t> heads_kv;
    std::vector<std::string> masks = {"none"};  ///< of none, causal
    std::uint64_t seed = 1;
    int samples = 200;  ///< least_measured or more
    double warmup_ms = 300;
    double most_seconds = 20;  ///< of a configuration; least_measured samples are taken all the same
};

/// The latencies of a kernel without hooks on the GPU, as a CSV file's text; ../GATES.md says how they are
/// measured. Errors: Error when there is no GPU, the kernel fails or the shape is not one of its.
std::string measure_latencies(const MeasureOptions& options);

}  // namespace tilescope
