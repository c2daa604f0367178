#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "oracle/heatmap/tile_map.h"
#include "viewer/session/session.h"

namespace tilescope::viewer {

/// Of which kind a divergence has to be.
enum class BadFilter : std::uint8_t { any, nan, infinite, unwritten, conflicting };
inline constexpr int bad_filter_count = 5;
std::string_view to_string(BadFilter filter);

struct BadList {
    Stage stage = Stage::s;
    bool tiles = false;  ///< tiles in place of rows
    BadFilter filter = BadFilter::any;
    Reference against = Reference::local;
    bool operator==(const BadList&) const = default;
};

/// A row or a tile that diverges.
struct BadPlace {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;      ///< q row (k, v: key); of a tile the first
    std::int64_t kv_tile = 0;  ///< of a tile
    std::int64_t q_block = 0;  ///< of a tile
    std::int64_t elements = 0;
    TileFinding tile;  ///< of a tile
};

/// The places of the list, in order (batch, head, row, KV tile). Rows come from the report, tiles from the
/// map. The kind of a row is that of any tile it runs through: a report counts rows, not their kinds;
/// keep_rows_of_kind() knows more.
std::vector<BadPlace> find_bad_places(const Document& document, const BadList& list);

enum class BadColumn : std::uint8_t { batch, head, row, kv_tile, q_block, elements, worst };
/// Those that are equal in the column stay in the order that find_bad_places() has.
void sort_bad_places(std::vector<BadPlace>& places, BadColumn column, bool descending);

}  // namespace tilescope::viewer
