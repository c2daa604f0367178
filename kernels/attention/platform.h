#pragma once

// What kernel code needs to know about the compiler: the same text is compiled by nvcc for the GPU and by the
// host compiler for the CPU. Kernel code names the build it belongs to, because several builds of the same
// kernel are linked into one program.

#include <math.h>

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define KERNEL_FUNCTION __device__ __forceinline__
#define KERNEL_UNROLL _Pragma("unroll")
#define KERNEL_ROLLED _Pragma("unroll 1")
// The loads of one step overlap the arithmetic of the other, and the compiler orders both builds alike.
#define KERNEL_UNROLL_TWO _Pragma("unroll 2")
#else
#define KERNEL_FUNCTION inline
#define KERNEL_UNROLL
#define KERNEL_ROLLED
#define KERNEL_UNROLL_TWO
#endif

#ifdef PLANTED_FAULTS
#define KERNEL_BUILD faulty
#elif defined(DEBUG_DUMP)
#define KERNEL_BUILD hooked
#else
#define KERNEL_BUILD plain
#endif

namespace tilescope::KERNEL_BUILD {

/// Which copy of a kernel is launched: the one with the hooks, or where nothing is selected one without. Of a faulty
/// one there is no other copy.
#ifdef DEBUG_DUMP
inline constexpr bool with_hooks = true;
#else
inline constexpr bool with_hooks = false;
#endif
#ifdef PLANTED_FAULTS
inline constexpr bool with_faults = true;
#else
inline constexpr bool with_faults = false;
#endif
inline constexpr bool without_hooks = with_faults;

}  // namespace tilescope::KERNEL_BUILD

namespace tilescope {

#ifdef __CUDACC__

using Half = __half;

KERNEL_FUNCTION float to_float(Half value) {
    return __half2float(value);
}

/// Rounded to nearest, ties to even.
KERNEL_FUNCTION Half to_half(float value) {
    return __float2half_rn(value);
}

/// The result of arithmetic as it is stored.
KERNEL_FUNCTION float stored(float value) {
    return value;
}

#else

struct Half {
    _Float16 value;
};

KERNEL_FUNCTION float to_float(Half value) {
    return float(value.value);
}

/// A NaN that comes out of arithmetic on a GPU has no sign and every other bit set, whatever went in. On a
/// CPU it has the bits of one that went in, such as those of an output that nobody wrote.
KERNEL_FUNCTION float stored(float value) {
    return value == value ? value : __builtin_bit_cast(float, 0x7fffffffu);
}

/// Rounded to nearest, ties to even.
KERNEL_FUNCTION Half to_half(float value) {
    return {_Float16(stored(value))};
}

/// What a hook records.
inline float hook_float(Half value) {
    return to_float(value);
}

#endif

}  // namespace tilescope
