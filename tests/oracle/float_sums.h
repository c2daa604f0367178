#pragma once

#include <cstdint>
#include <span>

namespace tilescope::test {

/// Ways in which kernels add up a float32 sum of products.
enum class Sum : std::uint8_t {
    sequential,            ///< fused multiply-adds, first to last
    reversed,              ///< fused multiply-adds, last to first
    rounded_products,      ///< every product and every addition rounded
    pairwise,              ///< products fused pair by pair, then a tree
    truncating_4,          ///< tensor cores: groups of 4 aligned to their largest term and truncated
    truncating_8,          ///< groups of 8
    truncating_16,         ///< groups of 16
    truncating_16_guarded  ///< groups of 16, 3 more bits inside
};
inline constexpr int sums = 8;

constexpr bool is_tensor_core(Sum sum) {
    return sum >= Sum::truncating_4;
}

/// start + sum a_i b_i; elements of b are `stride` apart.
float sum_of_products(Sum how, float start, std::span<const float> a, const float* b, std::int64_t stride);

/// Sum of `values` as the threads of a row add it up: each of `lanes` threads its own columns, then a
/// butterfly.
float sum_over_lanes(std::span<const float> values, std::int64_t lanes);

}  // namespace tilescope::test
