#pragma once

// fp8 elements on the GPU.

#include <cuda_fp8.h>

#include "kernels/attention/platform.h"

// Architectures before 8.9 convert with dozens of instructions, which are not worth a copy at each place.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
#define E4M3_CONVERSION inline __device__ __noinline__
#else
#define E4M3_CONVERSION KERNEL_FUNCTION
#endif

namespace tilescope {

/// The bits of an e4m3 number.
struct E4m3 {
    std::uint8_t bits;
};

/// Two codes, the first in the lower half, as float16.
E4M3_CONVERSION std::uint32_t e4m3_pair_to_halves(std::uint32_t codes) {
    const __half2_raw halves = __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(codes), __NV_E4M3);
    return std::uint32_t(halves.x) | std::uint32_t(halves.y) << 16;
}

KERNEL_FUNCTION float to_float(E4m3 code) {
    return __half2float(__ushort_as_half((unsigned short)(e4m3_pair_to_halves(code.bits))));
}

/// Rounded to nearest, ties to even; +-448 beyond that, NaN stays NaN.
E4M3_CONVERSION E4m3 to_e4m3(float value) {
    return {__nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3)};
}

/// Two of them, the first in the lower half.
KERNEL_FUNCTION std::uint32_t to_e4m3_pair(float first, float second) {
    return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, __NV_E4M3);
}

/// The same, but NaN beyond 448, too.
E4M3_CONVERSION E4m3 to_e4m3_without_saturation(float value) {
    return {__nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E4M3)};
}

/// What a hook records.
KERNEL_FUNCTION float hook_float(E4m3 code) {
    return to_float(code);
}

}  // namespace tilescope
