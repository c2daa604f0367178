#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dump/schema.h"
#include "dump/sink.h"
#include "kernels/attention_args.h"
#include "kernels/faults.h"

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
    std::span<const KernelConfig> configs;  ///< the first one of a head_dim is its default
    KernelConfig fault_config;              ///< the one build that has faults
    FaultyKernel faulty_kernel;             ///< its bit in the table of faults
    Dtype dtype_p;
    Units units;
    CpuEntry cpu;
    CudaEntry cuda;  ///< empty in a build without CUDA
};

std::span<const KernelInfo> all_kernels();
/// Null when there is no such kernel.
const KernelInfo* find_kernel(std::string_view name);

/// "32x64x2": block_m, block_n and stages.
std::string config_name(const KernelConfig& config);

/// Null when the kernel has no such build; an empty name means the default of the head_dim.
const KernelConfig* find_config(const KernelInfo& kernel, std::string_view name, std::int64_t head_dim);

}  // namespace tilescope
