#pragma once

#include <cstdint>

namespace tilescope {

/// Elements between two rows of AttentionArgs::products: a multiple of 64, so that every row begins where
/// tensor cores may store it, and tiles of 64 columns lie in it whole.
#ifdef __CUDACC__
__host__ __device__
#endif
    constexpr std::int64_t products_pitch(std::int64_t seqlen_kv) {
    return (seqlen_kv + 63) / 64 * 64;
}

}  // namespace tilescope
