#include "kernels/registry.h"

#include <algorithm>
#include <array>

#include "kernels/scalar.h"
#include "kernels/wmma.h"

namespace tilescope {

namespace {

#ifdef TILESCOPE_HAS_CUDA
constexpr CudaEntry scalar_on_gpu = {hooked::scalar_cuda, hooked::scalar_cuda_fault, plain::scalar_cuda,
                                     hooked::scalar_cuda_kernel, plain::scalar_cuda_kernel};
constexpr CudaEntry wmma_on_gpu = {hooked::wmma_cuda, hooked::wmma_cuda_fault, plain::wmma_cuda,
                                   hooked::wmma_cuda_kernel, plain::wmma_cuda_kernel};
#else
constexpr CudaEntry scalar_on_gpu;
constexpr CudaEntry wmma_on_gpu;
#endif

constexpr Units scalar_units;

constexpr Units wmma_units = [] {
    Units units;
    units.s_accumulation = Accumulation::tensor_core_f32;
    units.p_cast = Dtype::f16;
    units.acc_accumulation = Accumulation::tensor_core_f32;
    return units;
}();

constexpr std::array kernels = {
    KernelInfo{"scalar",
               "no tensor cores: eight threads a query row, cp.async, one or two KV stages",
               scalar_configs,
               scalar_fault_config,
               FaultyKernel::scalar,
               Dtype::f32,
               scalar_units,
               {hooked::scalar_cpu, hooked::scalar_cpu_fault},
               scalar_on_gpu},
    KernelInfo{"wmma",
               "both products on tensor cores with WMMA, Q staged in shared memory",
               wmma_configs,
               wmma_fault_config,
               FaultyKernel::wmma,
               Dtype::f16,
               wmma_units,
               {},
               wmma_on_gpu},
};

}  // namespace

std::span<const KernelInfo> all_kernels() {
    return kernels;
}

const KernelInfo* find_kernel(std::string_view name) {
    const auto* row = std::ranges::find(kernels, name, &KernelInfo::name);
    return row == kernels.end() ? nullptr : row;
}

std::string config_name(const KernelConfig& config) {
    return std::to_string(config.block_m) + "x" + std::to_string(config.block_n) + "x" +
           std::to_string(config.stages);
}

const KernelConfig* find_config(const KernelInfo& kernel, std::string_view name, std::int64_t head_dim) {
    for (const KernelConfig& config : kernel.configs) {
        if (config.head_dim == head_dim && (name.empty() || name == config_name(config))) return &config;
    }
    return nullptr;
}

}  // namespace tilescope
