#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "dump/schema.h"
#include "dump/schema/thread_layout.h"
#include "kernels/attention/builds.h"
#include "kernels/attention/configs.h"

namespace tilescope {

/// How the GPU runs a kernel; null in a build without CUDA.
struct CudaEntry {
    const CudaBuild* hooked = nullptr;
    const CudaBuild* faulty = nullptr;
    const CudaBuild* plain = nullptr;
    /// Why the machine cannot run it although it has a GPU, as one line; empty when it can. Null: it always
    /// can.
    std::string (*why_not_here)() = nullptr;
};

/// How the CPU does; null where it cannot.
struct CpuEntry {
    const CpuBuild* hooked = nullptr;
    const CpuBuild* faulty = nullptr;
};

/// What is declared of the stages that a kernel records.
struct Recorded {
    Units units = {};  ///< but for what follows from the configuration, see units_of
    int l_lanes = 1;   ///< partial row sums that l holds, as in Problem
    int l_lane_columns = 1;
};

/// A bundled kernel.
struct KernelInfo {
    std::string_view name;
    std::string_view description;
    std::span<const KernelConfig> configs;  ///< in the order in which a default is looked for
    std::span<const FaultyBuild> faults = {};
    bool quantises = false;  ///< q, k and v are rounded to e4m3, with a scale for each head
    bool guarded = false;    ///< differs from attention where its guards bite: on inputs that are extreme
    bool stores_products = false;  ///< takes AttentionArgs::products, and holds no tiles of Q and K
    bool casts_p = false;          ///< P is rounded to the type that the PV product takes, and recorded so
    Recorded recorded = {};
    const Recorded* recorded_with_wgmma = nullptr;         ///< null: the same
    ThreadLayouts (*threads)(const KernelConfig& config);  ///< that own what it records
    CpuEntry cpu = {};
    CudaEntry cuda = {};
};

std::span<const KernelInfo> all_kernels();
/// Null when there is no such kernel.
const KernelInfo* find_kernel(std::string_view name);

/// What the kernel is built for with the fault; null when it is not built with it.
const KernelConfig* faulty_config(const KernelInfo& kernel, const FaultInfo& fault);

/// Whether the kernel holds tiles of the stage, and so records it.
bool records(const KernelInfo& kernel, Stage stage);

/// Whether V is to lie along the keys, as along_keys.h says.
bool takes_v_along_keys(const KernelInfo& kernel, const KernelConfig& config);

/// The type of P as it is recorded, and what the stages contain that a build of the kernel records.
Dtype dtype_p_of(const KernelInfo& kernel, const KernelConfig& config);
const Recorded& recorded_of(const KernelInfo& kernel, const KernelConfig& config);
Units units_of(const KernelInfo& kernel, const KernelConfig& config);

}  // namespace tilescope
