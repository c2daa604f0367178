#pragma once

#include <cstdint>

namespace tilescope {

/// The stages of attention for KV tile t of a query block, in order of computation.
enum class Stage : std::uint8_t { q, k, v, s, m, p, l, acc, o, lse };

inline constexpr int stage_count = 10;

/// Bits of the quiet NaN that marks an element which no thread wrote; also the fill value of every tile
/// dataset.
inline constexpr std::uint32_t unwritten_bits = 0x7fd17e5cu;

/// What an axis of a tile walks along.
enum class Axis : std::uint8_t {
    query,    ///< rows of the query block: block_m of them, cut at seqlen_q
    key,      ///< keys of the KV tile: block_n of them, cut at seqlen_kv
    feature,  ///< head_dim or head_dim_v
    unit      ///< a row statistic: one element, or one a lane
};

}  // namespace tilescope
