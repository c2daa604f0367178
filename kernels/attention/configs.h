#pragma once

// The names of configurations, which of them a call gets, and which of two builds has it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/attention/attention_args.h"
#include "kernels/attention/builds.h"

namespace tilescope {

/// "32x64x2": block_m, block_n and stages; "64x64x1xe4m3" where P is in fp8, "128x128x2xwgmma" with wgmma.
inline std::string config_name(const KernelConfig& config) {
    return std::to_string(config.block_m) + "x" + std::to_string(config.block_n) + "x" +
           std::to_string(config.stages) + (config.p_in_fp8 ? "xe4m3" : "") + (config.wgmma ? "xwgmma" : "");
}

/// Null when there is no such configuration; an empty name means the default for a call with `query_rows` rows
/// over all heads and batch entries, on a GPU that `has_wgmma` or not.
inline const KernelConfig* find_config(std::span<const KernelConfig> configs, std::string_view name,
                                       std::int64_t head_dim, Dtype dtype = Dtype::f16,
                                       std::int64_t query_rows = 1, bool has_wgmma = false) {
    for (const KernelConfig& config : configs) {
        if (config.head_dim != head_dim || config.dtype != dtype) continue;
        // A shape is not checked yet: its rows may be negative.
        const bool is_default = (config.fewest_rows == 0 || query_rows >= config.fewest_rows) &&
                                (config.most_rows == 0 || query_rows <= config.most_rows) &&
                                (has_wgmma || !config.wgmma);
        if (name.empty() ? is_default : name == config_name(config)) return &config;
    }
    return nullptr;
}

/// Of a kernel whose configurations with wgmma are compiled by themselves, for sm_90a alone.
template <const CudaBuild& with_wgmma, const CudaBuild& others>
constexpr CudaBuild build_of_two() {
    return {[](const AttentionArgs& args, const KernelConfig& config, Fault fault, const Sink& sink) {
                return (config.wgmma ? with_wgmma : others).launch(args, config, fault, sink);
            },
            others.function == nullptr
                ? nullptr
                : +[](const KernelConfig&
                          config) { return (config.wgmma ? with_wgmma : others).function(config); }};
}

}  // namespace tilescope
