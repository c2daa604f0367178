#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/faults.h"

namespace tilescope {

/// How the elements of a contiguous [matrices][rows][cols] array share scales: each block of `block_rows`
/// rows of a matrix has its own, the last block may be shorter.
struct ScaleGroups {
    std::int64_t matrices = 1;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t block_rows = 0;

    std::int64_t blocks() const { return (rows + block_rows - 1) / block_rows; }
    std::int64_t count() const { return matrices * blocks(); }
    std::int64_t elements() const { return matrices * rows * cols; }
};

/// One scale for all of [heads][rows][cols], one a head, or one for each block of rows of a head.
inline ScaleGroups per_tensor(std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return {1, heads * rows, cols, heads * rows};
}
inline ScaleGroups per_head(std::int64_t heads, std::int64_t rows, std::int64_t cols) {
    return {heads, rows, cols, rows};
}
inline ScaleGroups per_block(std::int64_t heads, std::int64_t rows, std::int64_t cols,
                             std::int64_t block_rows) {
    return {heads, rows, cols, block_rows};
}

/// e4m3 codes, and what they are multiplied with to give the values back.
struct Quantised {
    std::vector<std::byte> codes;  ///< as the values lie
    std::vector<float> scales;     ///< [matrices][blocks]
};

/// The largest finite e4m3 number.
inline constexpr float largest_e4m3 = 448.0f;

/// Rounds value / scale to e4m3, to nearest, ties to even. A scale is amax / 448, amax the largest finite
/// magnitude of its group; 1 where that is 0, in a group of zeros above all. What lies beyond 448, infinities
/// included, becomes +-448; NaN becomes 0x7f. quantise_on_device gives the same bits.
Quantised quantise(std::span<const float> values, const ScaleGroups& groups);

/// How far the dequantised values are from the originals, NaN and infinities aside.
struct QuantisationError {
    double rms = 0;      ///< of the differences, relative to that of the originals; 0 where these are 0
    double largest = 0;  ///< difference, relative to the largest original
};
QuantisationError quantisation_error(std::span<const float> values, const Quantised& quantised,
                                     const ScaleGroups& groups);

/// quantise() on the GPU, of float32 or float16 in device memory to device memory: the same bits. Waits for
/// it. The fault may be one of the quantiser's own; others do nothing.
/// Errors: Error when the launch is refused or fails.
void quantise_floats_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales);
void quantise_halves_on_device(const void* values, const ScaleGroups& groups, void* codes, float* scales,
                               Fault fault = Fault::none);

/// Of codes [matrices][rows][cols] those that along_keys.h describes, [matrices][cols][pitch], in which rows are keys.
std::vector<std::byte> along_keys(std::span<const std::byte> codes, const ScaleGroups& groups);

/// along_keys() on the GPU, from device memory to device memory: the same bytes. Waits for it.
/// Errors: Error when the launch is refused or fails.
void lay_along_keys_on_device(const void* codes, const ScaleGroups& groups, void* laid);

}  // namespace tilescope
