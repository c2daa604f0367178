#pragma once

#include <cstdint>

namespace tilescope {

/// The stages of attention, in order of computation, and the tiles that a problem names. The backward pass
/// has q, k, v, s and p as well.
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
    dv,
    // Tiles that the problem names: Problem::named_tiles[0] and so on. Both passes can have them.
    named0,
    named1,
    named2,
    named3
};

/// Stages of attention: those before Stage::named0.
inline constexpr int built_in_stages = 17;
inline constexpr int max_named_tiles = 4;
inline constexpr int stage_count = built_in_stages + max_named_tiles;

/// The stage of Problem::named_tiles[index].
constexpr Stage named_tile(int index) {
    return Stage(built_in_stages + index);
}
constexpr bool is_named(Stage stage) {
    return int(stage) >= built_in_stages;
}

/// Bits of the quiet NaN that marks an element which no thread wrote; also the fill value of every tile
/// dataset.
inline constexpr std::uint32_t unwritten_bits = 0x7fd17e5cu;

/// What an axis of a tile walks along.
enum class Axis : std::uint8_t {
    query,    ///< rows of the query block: block_m of them, cut at seqlen_q
    key,      ///< keys of the KV tile: block_n of them, cut at seqlen_kv
    feature,  ///< head_dim or head_dim_v; of a named tile what it says
    unit      ///< a row statistic: one element, or one a lane; of a named tile what it says
};

}  // namespace tilescope
