#pragma once

// Products of a warpgroup of four warps (wgmma): 64 rows, added to float32 registers. The first operand is in
// registers, the second one in shared memory, in rows of 64 or 128 bytes that are swizzled as copies by tensor maps
// swizzle them. A product is 32 bytes deep: 16 elements of 16 bits, or 32 codes of e4m3.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/e4m3.cuh"
#include "kernels/attention/platform.h"

namespace tilescope {

/// Rows of a swizzled tile in shared memory, of what is `bytes` long. 1024 bytes are the unit of the swizzle.
constexpr int swizzled_row_bytes(int bytes) {
    return bytes < 128 ? 64 : 128;
}
inline constexpr int swizzled_unit_bytes = 1024;

/// Where a chunk of 16 bytes of a row lies in it.
template <int row_bytes>
__host__ __device__ __forceinline__ int swizzled_chunk(int row, int chunk) {
    return chunk ^ row / (128 / row_bytes) % (row_bytes / 16);
}
inline constexpr int product_depth_bytes = 32;

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

/// What wgmma has to know of an operand in shared memory: where it begins, that it is swizzled,
/// how far it is from eight rows to the next eight and, where rows lie along the depth and are not its
/// columns, from one 64 columns to the next (`leading_bytes`). In two words, so that what lies further on is
/// found by one addition.
struct SharedOperand {
    static constexpr std::uint32_t not_swizzled = 8 * 128 >> 4;
    template <int row_bytes>
    static constexpr std::uint32_t swizzled = (row_bytes == 64 ? 2u : 1u) << 30 | 8 * row_bytes >> 4;
    std::uint32_t lower;
    std::uint32_t upper;

    KERNEL_FUNCTION SharedOperand at(int bytes) const { return {lower + std::uint32_t(bytes >> 4), upper}; }
};
KERNEL_FUNCTION SharedOperand shared_operand(std::uint32_t shared, std::uint32_t layout,
                                             int leading_bytes = 16) {
    return {std::uint32_t(leading_bytes >> 4) << 16 | (shared & 0x3ffffu) >> 4, layout};
}

/// Before the first product of a group: what was written to registers is seen by it.
KERNEL_FUNCTION void begin_products() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
KERNEL_FUNCTION void commit_products() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the `pending` last groups are done.
template <int pending>
KERNEL_FUNCTION void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// Keeps the compiler from moving accesses to registers across: products use them at the same time.
template <int count>
KERNEL_FUNCTION void pin(float (&registers)[count]) {
    KERNEL_UNROLL
    for (int i = 0; i < count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

// The text of wgmma names all registers of the sum, eight in a row here, and behind them those of the operands.
#define WGMMA_ROW_0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_ROW_1 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_ROW_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_ROW_3 "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_ROW_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_ROW_5 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_ROW_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_ROW_7 "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_64 WGMMA_ROW_0 ", " WGMMA_ROW_1 ", " WGMMA_ROW_2 ", " WGMMA_ROW_3
#define WGMMA_NAMES_128 WGMMA_NAMES_64 ", " WGMMA_ROW_4 ", " WGMMA_ROW_5 ", " WGMMA_ROW_6 ", " WGMMA_ROW_7
#define WGMMA_EIGHT(i)                                                                                      \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
        "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define WGMMA_SUM_64 WGMMA_EIGHT(0), WGMMA_EIGHT(8), WGMMA_EIGHT(16), WGMMA_EIGHT(24)
#define WGMMA_SUM_128 WGMMA_SUM_64, WGMMA_EIGHT(32), WGMMA_EIGHT(40), WGMMA_EIGHT(48), WGMMA_EIGHT(56)

// The last seven are the numbers of the operands. Operands of 8 bits are never transposed, and do not say so.
#define WGMMA(columns, depth, type, transposition, a_0, a_1, a_2, a_3, b_lower, b_upper, from_zero)        \
    asm volatile("{\n.reg .pred adds;\n.reg .b64 b;\nsetp.ne.b32 adds, %" #from_zero                       \
                 ", 0;\n"                                                                                  \
                 "mov.b64 b, {%" #b_lower ", %" #b_upper                                                   \
                 "};\n"                                                                                    \
                 "wgmma.mma_async.sync.aligned.m64n" #columns "k" #depth ".f32." type "." type             \
                 " {" WGMMA_NAMES_##columns "}, {%" #a_0 ", %" #a_1 ", %" #a_2 ", %" #a_3                  \
                                            "}, b, adds, 1, 1" transposition ";\n}"                        \
                 : WGMMA_SUM_##columns                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.lower), "r"(b.upper), "n"(int(adds)), \
                   "n"(int(transposed)))
#define WGMMA_64(type) WGMMA(64, 16, type, ", %39", 32, 33, 34, 35, 36, 37, 38)
#define WGMMA_128(type) WGMMA(128, 16, type, ", %71", 64, 65, 66, 67, 68, 69, 70)
#define WGMMA_64_E4M3 WGMMA(64, 32, "e4m3", "", 32, 33, 34, 35, 36, 37, 38)
#define WGMMA_128_E4M3 WGMMA(128, 32, "e4m3", "", 64, 65, 66, 67, 68, 69, 70)

/// sum = a b, or sum += a b where it `adds`. `a` is in the order of an accumulator. A row of `b` in shared
/// memory is a column of the sum or, `transposed`, a step of the depth.
template <class Element, bool adds, bool transposed, int count>
KERNEL_FUNCTION void multiply_group(float (&sum)[count], const std::uint32_t (&a)[4], SharedOperand b) {
    static_assert(count == 32 || count == 64, "products have 64 or 128 columns: add a line");
    constexpr bool is_half = std::is_same_v<Element, __half>;
    if constexpr (std::is_same_v<Element, E4m3>) {
        static_assert(!transposed, "operands of 8 bits lie along the depth");
        if constexpr (count == 32) {
            WGMMA_64_E4M3;
        } else {
            WGMMA_128_E4M3;
        }
    } else if constexpr (count == 32 && is_half) {
        WGMMA_64("f16");
    } else if constexpr (count == 32) {
        WGMMA_64("bf16");
    } else if constexpr (is_half) {
        WGMMA_128("f16");
    } else {
        WGMMA_128("bf16");
    }
}

}  // namespace tilescope::KERNEL_BUILD
