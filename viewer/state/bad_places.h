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

/// What stands in a line of the table.
enum class Listed : std::uint8_t {
    ranges,  ///< rows of a head that follow each other
    rows,
    tiles
};
inline constexpr int listed_count = 3;

struct BadList {
    Stage stage = Stage::s;
    Listed listed = Listed::ranges;
    BadFilter filter = BadFilter::any;
    Reference against = Reference::local;
    bool operator==(const BadList&) const = default;
};

/// A range of rows, a row or a tile that diverges.
struct BadPlace {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;       ///< q row (k, v: key); of a range and of a tile the first
    std::int64_t last_row = 0;  ///< of a range
    std::int64_t kv_tile = 0;   ///< of a tile; of a range the first that diverges
    std::int64_t q_block = 0;   ///< of a tile
    std::int64_t elements = 0;
    float worst = 0;  ///< difference / budget, the largest; of a range and of a tile
    /// Of a range: false where its tiles hold other bad rows as well, so that `worst` is at most that much, and the first
    /// KV tile may be a later one.
    bool exact = true;
};

/// Tiles in place of rows that are neither q rows nor keys: they are those of any tile.
Listed listed_of(const Problem& problem, const BadList& list);

/// The places of the list, in order (batch, head, row, KV tile). Rows come from the report, also those of
/// ranges, tiles from the map. The kind of a row is that of any tile it runs through: a report counts rows, not their kinds;
/// keep_rows_of_kind() knows more.
std::vector<BadPlace> find_bad_places(const Document& document, const BadList& list);

enum class BadColumn : std::uint8_t { batch, head, row, kv_tile, q_block, elements, worst };
/// Those that are equal in the column stay in the order that find_bad_places() has.
void sort_bad_places(std::vector<BadPlace>& places, BadColumn column, bool descending);

}  // namespace tilescope::viewer
