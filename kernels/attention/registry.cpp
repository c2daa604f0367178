#include "kernels/attention/registry.h"

#include <algorithm>
#include <array>

#include "kernels/attention/cublas.h"
#include "kernels/attention/cublas_library.h"
#include "kernels/attention/fast.h"
#include "kernels/attention/fp8.h"
#include "kernels/attention/scalar.h"
#include "kernels/attention/stable.h"
#include "kernels/attention/thread_layouts.h"
#include "kernels/attention/wmma.h"

namespace tilescope {

namespace {

#ifdef TILESCOPE_HAS_CUDA
constexpr CudaEntry scalar_on_gpu = {hooked::scalar_cuda, hooked::scalar_cuda_fault, plain::scalar_cuda,
                                     hooked::scalar_cuda_kernel, plain::scalar_cuda_kernel};
constexpr CudaEntry wmma_on_gpu = {hooked::wmma_cuda, hooked::wmma_cuda_fault, plain::wmma_cuda,
                                   hooked::wmma_cuda_kernel, plain::wmma_cuda_kernel};
constexpr CudaEntry stable_on_gpu = {hooked::stable_cuda, hooked::stable_cuda_fault, plain::stable_cuda,
                                     hooked::stable_cuda_kernel, plain::stable_cuda_kernel};
constexpr CudaEntry fast_on_gpu = {hooked::fast_cuda, hooked::fast_cuda_fault, plain::fast_cuda,
                                   hooked::fast_cuda_kernel, plain::fast_cuda_kernel};
constexpr CudaEntry fp8_on_gpu = {hooked::fp8_cuda, hooked::fp8_cuda_fault, plain::fp8_cuda,
                                  hooked::fp8_cuda_kernel, plain::fp8_cuda_kernel};
constexpr CudaEntry cublas_on_gpu = {hooked::cublas_cuda,       hooked::cublas_cuda_fault,
                                     plain::cublas_cuda,        hooked::cublas_cuda_kernel,
                                     plain::cublas_cuda_kernel, why_no_cublas};
#else
constexpr CudaEntry cublas_on_gpu;
constexpr CudaEntry fast_on_gpu;
constexpr CudaEntry fp8_on_gpu;
constexpr CudaEntry scalar_on_gpu;
constexpr CudaEntry stable_on_gpu;
constexpr CudaEntry wmma_on_gpu;
#endif

constexpr Units scalar_units;

constexpr Units cublas_units = [] {
    Units units;
    units.s_accumulation = Accumulation::tensor_core_f32;
    return units;
}();

constexpr Units wmma_units = [] {
    Units units;
    units.s_accumulation = Accumulation::tensor_core_f32;
    units.acc_accumulation = Accumulation::tensor_core_f32;
    return units;
}();

constexpr Units fast_units = [] {
    Units units = wmma_units;
    units.s_scaled = false;
    units.m_scaled = false;
    units.p_exp = ExpFunction::ex2_approx;
    return units;
}();

constexpr Units fp8_units = [] {
    Units units = wmma_units;
    units.q_dequantised = units.k_dequantised = units.v_dequantised = false;
    units.s_accumulation = Accumulation::tensor_core_fp8;
    units.acc_dequantised = false;
    return units;
}();

constexpr std::array kernels = {
    KernelInfo{"scalar",
               "no tensor cores: eight threads a query row, cp.async, one or two KV stages",
               scalar_configs,
               scalar_fault_config,
               FaultyKernel::scalar,
               false,
               1,
               1,
               scalar_units,
               scalar_threads,
               {hooked::scalar_cpu, hooked::scalar_cpu_fault},
               scalar_on_gpu},
    KernelInfo{"wmma",
               "both products on tensor cores with WMMA, Q staged in shared memory",
               wmma_configs,
               wmma_fault_config,
               FaultyKernel::wmma,
               true,
               1,
               1,
               wmma_units,
               wmma_threads,
               {},
               wmma_on_gpu},
    KernelInfo{"stable",
               "scalar with guards: exp arguments from -80 on, NaN and Inf masked, an epsilon beside the sum",
               stable_configs,
               stable_fault_config,
               FaultyKernel::stable,
               false,
               1,
               1,
               scalar_units,
               scalar_threads,
               {hooked::stable_cpu, hooked::stable_cpu_fault},
               stable_on_gpu,
               false,
               true},
    KernelInfo{
        "fast",
        "mma.sync, everything but Q, K and V in registers, cp.async, swizzled shared memory; f16 and bf16",
        fast_configs,
        fast_fault_config,
        FaultyKernel::fast,
        true,
        4,
        2,
        fast_units,
        fast_threads,
        {},
        fast_on_gpu},
    KernelInfo{"fp8",
               "Q, K and V in e4m3 with a scale a head, P in e4m3 or float16; mma.sync, registers",
               fp8_configs,
               fp8_fault_config,
               FaultyKernel::fp8,
               true,
               1,
               1,
               fp8_units,
               fp8_threads,
               {},
               fp8_on_gpu,
               true},
    KernelInfo{"cublas",
               "QK^T of all heads by cuBLAS, on tensor cores, stored in float32; softmax and PV as in scalar",
               cublas_configs,
               cublas_fault_config,
               FaultyKernel::cublas,
               false,
               1,
               1,
               cublas_units,
               scalar_threads,
               {},
               cublas_on_gpu,
               false,
               false,
               true},
};

}  // namespace

std::span<const KernelInfo> all_kernels() {
    return kernels;
}

const KernelInfo* find_kernel(std::string_view name) {
    const auto* row = std::ranges::find(kernels, name, &KernelInfo::name);
    return row == kernels.end() ? nullptr : row;
}

bool records(const KernelInfo& kernel, Stage stage) {
    return !kernel.stores_products || (stage != Stage::q && stage != Stage::k);
}

std::string config_name(const KernelConfig& config) {
    return std::to_string(config.block_m) + "x" + std::to_string(config.block_n) + "x" +
           std::to_string(config.stages) + (config.p_in_fp8 ? "xe4m3" : "");
}

const KernelConfig* find_config(const KernelInfo& kernel, std::string_view name, std::int64_t head_dim,
                                Dtype dtype, std::int64_t query_rows) {
    for (const KernelConfig& config : kernel.configs) {
        if (config.head_dim != head_dim || config.dtype != dtype) continue;
        const bool is_meant = name.empty() ? config.most_rows == 0 || query_rows <= config.most_rows
                                           : name == config_name(config);
        if (is_meant) return &config;
    }
    return nullptr;
}

Dtype dtype_p_of(const KernelInfo& kernel, const KernelConfig& config) {
    if (config.p_in_fp8) return Dtype::e4m3;
    return kernel.casts_p ? config.dtype : Dtype::f32;
}

Units units_of(const KernelInfo& kernel, const KernelConfig& config) {
    Units units = kernel.units;
    if (kernel.casts_p) units.p_cast = dtype_p_of(kernel, config);
    if (!config.p_in_fp8) return units;
    units.p_scale = units.acc_scale = fp8_p_scale;
    units.acc_accumulation = Accumulation::tensor_core_fp8;
    return units;
}

}  // namespace tilescope
