#pragma once

// Products of a warp on tensor cores with mma.sync, of e4m3 codes in memory and of P in registers: 16 rows,
// 8 columns. Lane g * 4 + t holds rows g and g + 8. Source of the layouts: PTX ISA, matrix fragments for
// mma.m16n8k16 and mma.m16n8k32.

#include "kernels/attention/e4m3.cuh"

namespace tilescope::KERNEL_BUILD {

/// Four neighbouring codes, whose address is a multiple of four.
KERNEL_FUNCTION std::uint32_t four_codes(const E4m3* codes) {
    return *reinterpret_cast<const std::uint32_t*>(codes);
}

/// The codes of one feature in two neighbouring rows.
KERNEL_FUNCTION std::uint32_t codes_below(const E4m3* codes, int ld) {
    return std::uint32_t(codes[0].bits) | std::uint32_t(codes[ld].bits) << 8;
}

/// sum += a b, of depth 16.
KERNEL_FUNCTION void multiply_halves(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b_low,
                                     std::uint32_t b_high) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
}

/// sum += a b, of depth 32, in fp8 where the architecture has it. The order along the depth is free as long
/// as a and b have the same one.
KERNEL_FUNCTION void multiply_codes(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b_low,
                                    std::uint32_t b_high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high));
#else
    multiply_halves(sum,
                    {e4m3_pair_to_halves(a[0]), e4m3_pair_to_halves(a[1]), e4m3_pair_to_halves(a[0] >> 16),
                     e4m3_pair_to_halves(a[1] >> 16)},
                    e4m3_pair_to_halves(b_low), e4m3_pair_to_halves(b_low >> 16));
    multiply_halves(sum,
                    {e4m3_pair_to_halves(a[2]), e4m3_pair_to_halves(a[3]), e4m3_pair_to_halves(a[2] >> 16),
                     e4m3_pair_to_halves(a[3] >> 16)},
                    e4m3_pair_to_halves(b_high), e4m3_pair_to_halves(b_high >> 16));
#endif
}

KERNEL_FUNCTION std::uint32_t pack(E4m3 a, E4m3 b, E4m3 c, E4m3 d) {
    return std::uint32_t(a.bits) | std::uint32_t(b.bits) << 8 | std::uint32_t(c.bits) << 16 |
           std::uint32_t(d.bits) << 24;
}

KERNEL_FUNCTION std::uint32_t pack(Half a, Half b) {
    return std::uint32_t(__half_as_ushort(a)) | std::uint32_t(__half_as_ushort(b)) << 16;
}

/// sum += p v over 32 keys. `p` are four accumulators of m16n8, side by side; v[i] holds the codes of one
/// feature for keys 8 i + 2 t and 8 i + 2 t + 1.
KERNEL_FUNCTION void multiply_p(float (&sum)[4], const E4m3 (*p)[4], const std::uint32_t (&v)[4]) {
    multiply_codes(sum,
                   {pack(p[0][0], p[0][1], p[1][0], p[1][1]), pack(p[0][2], p[0][3], p[1][2], p[1][3]),
                    pack(p[2][0], p[2][1], p[3][0], p[3][1]), pack(p[2][2], p[2][3], p[3][2], p[3][3])},
                   v[0] | v[1] << 16, v[2] | v[3] << 16);
}
KERNEL_FUNCTION void multiply_p(float (&sum)[4], const Half (*p)[4], const std::uint32_t (&v)[4]) {
    for (int i = 0; i < 4; i += 2) {
        multiply_halves(sum,
                        {pack(p[i][0], p[i][1]), pack(p[i][2], p[i][3]), pack(p[i + 1][0], p[i + 1][1]),
                         pack(p[i + 1][2], p[i + 1][3])},
                        e4m3_pair_to_halves(v[i]), e4m3_pair_to_halves(v[i + 1]));
    }
}

}  // namespace tilescope::KERNEL_BUILD
