#pragma once

// Instructions of a warp on tiles of 16-bit elements: asynchronous copies to shared memory, fragments of
// mma.sync m16n8k16, and the order of chunks in shared memory in which no load meets a bank twice.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/platform.h"

namespace tilescope {

inline constexpr int chunk_elements = 8;
inline constexpr int chunk_bytes = 16;
/// A chunk of a row lies at chunk ^ (row % swizzle_rows): the eight rows of a matrix are in different banks.
inline constexpr int swizzle_rows = 8;

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

KERNEL_FUNCTION std::uint32_t shared_address(const void* shared) {
    return std::uint32_t(__cvta_generic_to_shared(shared));
}

/// Starts the copy of 16 bytes from global to shared memory; zeros when not `inside`, and nothing is read.
KERNEL_FUNCTION void copy_chunk_async(std::uint32_t shared, const void* global, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
                 "r"(inside ? chunk_bytes : 0)
                 : "memory");
}

KERNEL_FUNCTION void commit_copies() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/// Waits until all but the `pending` last groups of this thread have arrived.
template <int pending>
KERNEL_FUNCTION void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Four 8x8 matrices; the lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
KERNEL_FUNCTION void load_matrices(std::uint32_t (&matrices)[4], std::uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row)
                 : "memory");
}

/// The same, each transposed.
KERNEL_FUNCTION void load_matrices_transposed(std::uint32_t (&matrices)[4], std::uint32_t row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row)
                 : "memory");
}

/// sum += a b: 16 rows, 8 columns, depth 16.
template <class Element>
KERNEL_FUNCTION void multiply_add(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b_low,
                                  std::uint32_t b_high) {
    if constexpr (std::is_same_v<Element, __half>) {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
    } else {
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, "
            "%9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
    }
}

/// Two elements in one register, the first in the lower half; rounded to nearest, ties to even.
template <class Element>
KERNEL_FUNCTION std::uint32_t pack(float first, float second) {
    if constexpr (std::is_same_v<Element, __half>) {
        const __half2 pair = __floats2half2_rn(first, second);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
        return *reinterpret_cast<const std::uint32_t*>(&pair);
    }
}

/// 2^x, flushing subnormal numbers.
KERNEL_FUNCTION float power_of_two(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

}  // namespace tilescope::KERNEL_BUILD
