#pragma once

#include <cstdint>
#include <span>

#include "dump/schema.h"

namespace tilescope::test {

/// Ways in which kernels add up a sum of products.
enum class Sum : std::uint8_t {
    sequential,             ///< fused multiply-adds, first to last
    reversed,               ///< fused multiply-adds, last to first
    rounded_products,       ///< every product and every addition rounded
    pairwise,               ///< products fused pair by pair, then a tree
    truncating_4,           ///< tensor cores: groups of 4 aligned to their largest term and truncated
    truncating_8,           ///< groups of 8
    truncating_16,          ///< groups of 16
    truncating_16_guarded,  ///< groups of 16, 2 more bits inside: sm_90
    truncating_8_guarded,   ///< groups of 8, 1 more bit inside: sm_80
    fp8,                    ///< groups of 16, of which 13 bits after the leading one are kept
    tf32_rounded,           ///< groups of 4 of operands that are rounded to 11 bits
    tf32_cut,               ///< groups of 4 of operands that are cut off to 11 bits
    half_fma,               ///< fused multiply-adds in float16
    half_tensor_core        ///< groups of 16, each sum rounded to float16
};
/// Those that take operands of any type and are within the bounds of an unknown device.
inline constexpr int sums = 8;

constexpr bool is_half(Sum sum) {
    return sum == Sum::half_fma || sum == Sum::half_tensor_core;
}

/// What a recording declares for it.
Accumulation accumulation_of(Sum sum);

/// start + sum a_i b_i; elements of b are `stride` apart.
float sum_of_products(Sum how, float start, std::span<const float> a, const float* b, std::int64_t stride);

/// Sum of `values` as the threads of a row add it up: each of `lanes` threads its own columns, then a
/// butterfly.
float sum_over_lanes(std::span<const float> values, std::int64_t lanes);

/// Sum of `values` as a butterfly of shuffles adds them.
float sum_of_tree(std::span<const float> values);

/// `value` rounded to float16 and back.
float to_half(double value);

}  // namespace tilescope::test
