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

// What the sources of the kernels end with, one for each build of them.
#define CUDA_KERNELS scalar, wmma, stable, fast, fp8, cublas
#define CPU_KERNELS scalar_cpu, stable_cpu

namespace hooked {
extern const CudaBuild CUDA_KERNELS;
extern const CpuBuild CPU_KERNELS;
}  // namespace hooked
namespace faulty {
extern const CudaBuild CUDA_KERNELS;
extern const CpuBuild CPU_KERNELS;
}  // namespace faulty
namespace plain {
extern const CudaBuild CUDA_KERNELS;
}  // namespace plain

namespace {

#define ON_CPU(kernel) \
    { &hooked::kernel, &faulty::kernel }
// A build without CUDA has none of what runs on the GPU.
#ifdef TILESCOPE_HAS_CUDA
#define ON_GPU(kernel, ...) \
    { &hooked::kernel, &faulty::kernel, &plain::kernel, __VA_ARGS__ }
#else
#define ON_GPU(...) \
    {}
#endif

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

constexpr Units with_codes(Units units) {
    units.q_dequantised = units.k_dequantised = units.v_dequantised = false;
    units.s_accumulation = Accumulation::tensor_core_fp8;
    units.acc_dequantised = false;
    return units;
}

/// Its softmax is that of fast, but for the scale of P, which the exponential is multiplied with.
constexpr Recorded fp8_with_wgmma = [] {
    Recorded recorded = {with_codes(fast_units), 4, 2};
    recorded.units.l_scale = fp8_p_scale;
    return recorded;
}();

constexpr std::span<const FaultyBuild> one_build(const FaultyBuild& build) {
    return {&build, 1};
}

constexpr std::array kernels = {
    KernelInfo{.name = "scalar",
               .description = "no tensor cores: eight threads a query row, cp.async, one or two KV stages",
               .configs = scalar_configs,
               .faults = one_build(scalar_faults),
               .threads = scalar_threads,
               .cpu = ON_CPU(scalar_cpu),
               .cuda = ON_GPU(scalar)},
    KernelInfo{.name = "wmma",
               .description = "both products on tensor cores with WMMA, Q staged in shared memory",
               .configs = wmma_configs,
               .faults = one_build(wmma_faults),
               .casts_p = true,
               .recorded = {wmma_units},
               .threads = wmma_threads,
               .cuda = ON_GPU(wmma)},
    KernelInfo{
        .name = "stable",
        .description =
            "scalar with guards: exp arguments from -80 on, NaN and Inf masked, an epsilon beside the sum",
        .configs = stable_configs,
        .faults = one_build(stable_faults),
        .guarded = true,
        .threads = scalar_threads,
        .cpu = ON_CPU(stable_cpu),
        .cuda = ON_GPU(stable)},
    KernelInfo{.name = "fast",
               .description = "everything but Q, K and V in registers, swizzled shared memory; mma.sync and "
                              "cp.async, or wgmma and tensor maps on sm_90; f16 and bf16",
               .configs = fast_configs,
               .faults = fast_faults,
               .casts_p = true,
               .recorded = {fast_units, 4, 2},
               .threads = fast_threads,
               .cuda = ON_GPU(fast)},
    KernelInfo{.name = "fp8",
               .description =
                   "Q, K and V in e4m3 with a scale a head, P in e4m3 or float16; mma.sync and registers, or "
                   "as fast with wgmma and tensor maps on sm_90",
               .configs = fp8_configs,
               .faults = one_build(fp8_faults),
               .quantises = true,
               .casts_p = true,
               .recorded = {with_codes(wmma_units)},
               .recorded_with_wgmma = &fp8_with_wgmma,
               .threads = fp8_threads,
               .cuda = ON_GPU(fp8)},
    KernelInfo{
        .name = "cublas",
        .description =
            "QK^T of all heads by cuBLAS, on tensor cores, stored in float32; softmax and PV as in scalar",
        .configs = cublas_configs,
        .faults = one_build(cublas_faults),
        .stores_products = true,
        .recorded = {cublas_units},
        .threads = scalar_threads,
        .cuda = ON_GPU(cublas, why_no_cublas)},
};

}  // namespace

std::span<const KernelInfo> all_kernels() {
    return kernels;
}

const KernelInfo* find_kernel(std::string_view name) {
    const auto* row = std::ranges::find(kernels, name, &KernelInfo::name);
    return row == kernels.end() ? nullptr : row;
}

const KernelConfig* faulty_config(const KernelInfo& kernel, const FaultInfo& fault) {
    for (const FaultyBuild& build : kernel.faults) {
        if (applies_to(fault, build.kernel)) return &build.config;
    }
    return nullptr;
}

bool records(const KernelInfo& kernel, Stage stage) {
    return !kernel.stores_products || (stage != Stage::q && stage != Stage::k);
}

Dtype dtype_p_of(const KernelInfo& kernel, const KernelConfig& config) {
    if (config.p_in_fp8) return Dtype::e4m3;
    return kernel.casts_p ? config.dtype : Dtype::f32;
}

bool takes_v_along_keys(const KernelInfo& kernel, const KernelConfig& config) {
    return kernel.quantises && config.wgmma;
}

const Recorded& recorded_of(const KernelInfo& kernel, const KernelConfig& config) {
    const bool differs = config.wgmma && kernel.recorded_with_wgmma != nullptr;
    return differs ? *kernel.recorded_with_wgmma : kernel.recorded;
}

Units units_of(const KernelInfo& kernel, const KernelConfig& config) {
    Units units = recorded_of(kernel, config).units;
    if (kernel.casts_p) units.p_cast = dtype_p_of(kernel, config);
    if (!config.p_in_fp8) return units;
    units.p_scale = units.acc_scale = fp8_p_scale;
    units.acc_accumulation = Accumulation::tensor_core_fp8;
    return units;
}

}  // namespace tilescope
