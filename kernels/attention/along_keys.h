#pragma once

// V in e4m3 as wgmma multiplies it: [batch][heads_kv][head_dim][pitch], the keys of a feature side by side, since
// operands of 8 bits have to lie along the depth of a product.

#include <cstdint>

#ifdef __CUDACC__
#define HOST_AND_DEVICE __host__ __device__ __forceinline__
#else
#define HOST_AND_DEVICE inline
#endif

namespace tilescope {

/// Keys of a feature are padded with zeros to a multiple of it.
inline constexpr int along_keys_unit = 128;

constexpr std::int64_t along_keys_pitch(std::int64_t seqlen_kv) {
    return (seqlen_kv + along_keys_unit - 1) / along_keys_unit * along_keys_unit;
}

/// Where a key lies among the codes of its feature. Within 32 keys the order is that in which a thread that has four
/// pairs of probabilities, 8 keys apart, packs them for a product: its codes are neighbours then.
HOST_AND_DEVICE int place_along_keys(int key) {
    const int in_depth = key % 32;
    const int lane = in_depth % 8 / 2;
    return key - in_depth + in_depth / 16 * 16 + lane * 4 + in_depth / 8 % 2 * 2 + key % 2;
}

/// Which key lies there.
HOST_AND_DEVICE int key_along_keys(int place) {
    const int in_depth = place % 32;
    return place - in_depth + in_depth / 16 * 16 + in_depth % 4 / 2 * 8 + in_depth % 16 / 4 * 2 + place % 2;
}

}  // namespace tilescope

#undef HOST_AND_DEVICE
