#pragma once

#include <cstdint>

namespace tilescope {

/// The stages of attention, in order of computation. The backward pass has q, k, v, s and p as well.
enum class Stage : std::uint8_t {
    // The forward pass, for KV tile t of a query block.
    q,
    k,
    v,
    s,
    m,
    p,
    l,
    acc,
    o,
    lse,
    // The backward pass.
    dout,   ///< gradient of o, as the kernel holds it after loading
    delta,  ///< row sum of dout * o
    dp,     ///< gradient of p: dout v^T
    ds,     ///< gradient of s: p (dp - delta)
    dq,
    dk,
    dv
};

inline constexpr int stage_count = 17;

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
