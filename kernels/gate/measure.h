#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gate/sampling.h"

namespace tilescope {

/// What to measure: one kernel, each shape with each mask.
struct MeasureOptions : Sampling {
    std::string kernel;
    std::string config;               ///< empty: the default of the head_dim
    std::vector<std::string> shapes;  ///< "B,H,Sq,Skv,D"
    std::string dtype = "f16";
    std::optional<std::int64_t> heads_kv;
    std::vector<std::string> masks = {"none"};  ///< of none, causal
};

/// The latencies of a kernel without hooks on the GPU, as a CSV file's text; ../GATES.md says how they are
/// measured. Errors: Error when there is no GPU, the kernel fails or the shape is not one of its.
std::string measure_latencies(const MeasureOptions& options);

/// The latencies of one tile of q k^T, by each of all_tile_products(), in the same form.
/// Errors: Error when there is no GPU or no cuBLAS, or a product is not stored.
std::string measure_tiles(const Sampling& sampling);

}  // namespace tilescope
