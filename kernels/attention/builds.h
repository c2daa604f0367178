#pragma once

// How the host calls a kernel. Each is compiled for the GPU three times, into a namespace each: `hooked`,
// `faulty` with hooks and all of its faults, and `plain` without hooks.

#include <cstdint>

#include "dump/hook/sink.h"
#include "kernels/attention/attention_args.h"
#include "kernels/attention/faults.h"

namespace tilescope {

/// The configuration of a kernel that these faults are built into; as it is, of a kernel without.
struct FaultyBuild {
    FaultyKernel kernel = FaultyKernel::none;
    KernelConfig config;
};

/// `config` is one of the kernel's. `fault` is none unless the build is the faulty one, which has one
/// configuration. A plain build does not look at the sink.
struct CudaBuild {
    Launch (*launch)(const AttentionArgs& args, const KernelConfig& config, Fault fault, const Sink& sink);
    /// What `launch` launches, as cudaFuncGetAttributes takes it; null in the faulty build.
    const void* (*function)(const KernelConfig& config);
};

/// The same for the CPU. `shared_word` is what every word of a block's shared memory holds before it begins.
struct CpuBuild {
    Launch (*launch)(const AttentionArgs& args, const KernelConfig& config, Fault fault,
                     std::uint32_t shared_word, const Sink& sink);
};

}  // namespace tilescope
