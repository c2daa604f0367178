#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dump/hook/sink.h"
#include "dump/schema.h"
#include "dump/schema/thread_layout.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// How the GPU runs a kernel; null where it cannot. `config` is one of the kernel's, `fault` one that it is
/// built with.
struct CudaEntry {
    Launch (*healthy)(const AttentionArgs& args, const KernelConfig& config, const Sink& sink) = nullptr;
    Launch (*faulty)(const AttentionArgs& args, Fault fault, const Sink& sink) = nullptr;
    Launch (*without_hooks)(const AttentionArgs& args, const KernelConfig& config) = nullptr;
    /// What `healthy` and `without_hooks` launch, as cudaFuncGetAttributes takes it.
    const void* (*healthy_kernel)(const KernelConfig& config) = nullptr;
    const void* (*kernel_without_hooks)(const KernelConfig& config) = nullptr;
    /// Why the machine cannot run it although it has a GPU, as one line; empty when it can. Null: it always
    /// can.
    std::string (*why_not_here)() = nullptr;
};

/// How the CPU does. `shared_word` is what every word of a block's shared memory holds before it begins.
struct CpuEntry {
    Launch (*healthy)(const AttentionArgs& args, const KernelConfig& config, std::uint32_t shared_word,
                      const Sink& sink) = nullptr;
    Launch (*faulty)(const AttentionArgs& args, Fault fault, std::uint32_t shared_word,
                     const Sink& sink) = nullptr;
};

/// A bundled kernel.
struct KernelInfo {
    std::string_view name;
    std::string_view description;
    std::span<const KernelConfig> configs;  ///< in the order in which a default is looked for
    KernelConfig fault_config;              ///< the one build that has faults
    FaultyKernel faulty_kernel;             ///< its bit in the table of faults
    bool casts_p;  ///< P is rounded to the type that the PV product takes, and recorded so
    int l_lanes;   ///< partial row sums that l holds, as in Problem
    int l_lane_columns;
    Units units;  ///< but for what follows from the configuration, see units_of
    ThreadLayouts (*threads)(const KernelConfig& config);  ///< that own what it records
    CpuEntry cpu;
    CudaEntry cuda;          ///< empty in a build without CUDA
    bool quantises = false;  ///< q, k and v are rounded to e4m3, with a scale for each head
    bool guarded = false;    ///< differs from attention where its guards bite: on inputs that are extreme
    bool stores_products = false;  ///< takes AttentionArgs::products, and holds no tiles of Q and K
};

std::span<const KernelInfo> all_kernels();
/// Null when there is no such kernel.
const KernelInfo* find_kernel(std::string_view name);

/// Whether the kernel holds tiles of the stage, and so records it.
bool records(const KernelInfo& kernel, Stage stage);

/// "32x64x2": block_m, block_n and stages; "64x64x1xe4m3" where P is in fp8.
std::string config_name(const KernelConfig& config);

/// Null when the kernel has no such build; an empty name means the default for a call with `query_rows` rows
/// over all heads and batch entries.
const KernelConfig* find_config(const KernelInfo& kernel, std::string_view name, std::int64_t head_dim,
                                Dtype dtype = Dtype::f16, std::int64_t query_rows = 1);

/// The type of P as it is recorded, and what the stages contain that a build of the kernel records.
Dtype dtype_p_of(const KernelInfo& kernel, const KernelConfig& config);
Units units_of(const KernelInfo& kernel, const KernelConfig& config);

}  // namespace tilescope
