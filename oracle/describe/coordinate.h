#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dump/schema.h"

namespace tilescope {

/// What the index, the bound or the condition of a kernel is computed from: numbers of an element, of its tile, and extents
/// of the call.
enum class Coordinate : std::uint8_t {
    batch,
    head,
    kv_head,
    split,
    q_block,
    kv_tile,
    row,  ///< of the tile, as the column
    col,
    d,
    lane,
    query,
    key,
    nothing,    ///< always 0
    first_row,  ///< the query or key of the tile's first row
    first_col,  ///< the key of its first column, where columns are keys
    group,      ///< query heads of a KV head
    batch_size,
    heads,
    heads_kv,
    seqlen_q,
    seqlen_kv,
    head_dim,
    head_dim_v,
    block_m,
    block_n,
    q_blocks,
};
inline constexpr std::size_t coordinate_count = std::size_t(Coordinate::q_blocks) + 1;

/// As an index has it: "row". `nothing` is "0".
std::string_view coordinate_name(Coordinate coordinate);

/// The number of each coordinate.
class Place {
 public:
    /// Zeros, and the extents of the call.
    static Place in(const Problem& problem);

    std::int64_t& operator[](Coordinate coordinate) { return numbers_[std::size_t(coordinate)]; }
    std::int64_t operator[](Coordinate coordinate) const { return numbers_[std::size_t(coordinate)]; }

 private:
    std::array<std::int64_t, coordinate_count> numbers_{};
};

/// The coordinates of a tile's rows and columns.
struct TileAxes {
    Coordinate down = Coordinate::row;
    Coordinate along = Coordinate::d;
};

/// A coordinate, and one more than the greatest that it can be.
struct CoordinateRange {
    Coordinate coordinate = Coordinate::nothing;
    std::int64_t length = 1;
};

}  // namespace tilescope
