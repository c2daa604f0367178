#include "viewer/state/bad_ranges.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "oracle/heatmap/plane.h"
#include "viewer/state/row_kinds.h"
#include "viewer/state/view_state.h"

namespace tilescope::viewer {

namespace {

/// Tiles of the same rows: batch, head and number of the tile along the rows.
using Band = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
/// Those of each band that diverge and hold the list's kind, in order of KV tiles.
using Bands = std::map<Band, std::vector<BadPlace>>;

std::int64_t rows_of_tile(const Document& document, const BadList& list) {
    const bool keys = row_axis_of(document.problem(), list.stage) == ViewAxis::key;
    return keys ? document.problem().block_n : document.problem().block_m;
}

Bands bands_of(const Document& document, const BadList& list) {
    const std::int64_t block = rows_of_tile(document, list);
    BadList tiles = list;
    tiles.listed = Listed::tiles;
    Bands bands;
    for (const BadPlace& tile : find_bad_places(document, tiles))
        bands[{tile.batch, tile.head, tile.row / block}].push_back(tile);
    return bands;
}

/// The bad tiles that the range runs through.
std::vector<BadPlace> tiles_of(const Bands& bands, const BadPlace& range, std::int64_t block) {
    std::vector<BadPlace> tiles;
    for (std::int64_t band = range.row / block; band <= range.last_row / block; ++band) {
        const auto found = bands.find({range.batch, range.head, band});
        if (found != bands.end()) tiles.insert(tiles.end(), found->second.begin(), found->second.end());
    }
    return tiles;
}

/// A tile's picture, and the range's rows in it.
struct Part {
    std::shared_ptr<const Pyramid> picture;  ///< null: being made
    Rect rect;
};
Part part_of(Session& session, const Document& document, const BadList& list, const BadPlace& tile,
             const BadPlace& range) {
    const PlaneShape shape = plane_shape(document.problem(), list.stage);
    const PlaceInPlane corner =
        corner_of(document.problem(), list.stage, {tile.batch, tile.head, tile.q_block, tile.kv_tile});
    Part part{session.request(corner.plane, against(list.against, Quantity::over_budget)),
              {std::max(corner.row, range.row), corner.col,
               std::min({corner.row + shape.tile_rows, shape.rows, range.last_row + 1}),
               std::min(corner.col + shape.tile_cols, shape.cols)}};
    if (part.picture != nullptr && !part.picture->is_complete()) part.picture.reset();
    return part;
}

/// The largest quotient; what has no finite value is beyond all others.
float worst_in(const Pyramid& picture, const Rect& rect, BadFilter filter) {
    const Summary found = picture.worst_of(rect);
    constexpr KindFlags quotients = flag_of(Kind::finite) | flag_of(Kind::masked) | flag_of(Kind::inherited) |
                                    flag_of(Kind::indifferent) | flag_of(Kind::not_judged) |
                                    flag_of(Kind::not_captured);
    const bool beyond = (found.kinds & ~quotients) != 0 && diverges(found, filter);
    return beyond ? std::numeric_limits<float>::max() : found.max;
}

/// Follows the half with the larger quotient down to a row.
std::int64_t worst_row_in(const Pyramid& picture, Rect rect, BadFilter filter) {
    while (rect.last_row - rect.first_row > 1) {
        Rect upper = rect;
        Rect lower = rect;
        upper.last_row = lower.first_row = rect.first_row + (rect.last_row - rect.first_row) / 2;
        rect = worst_in(picture, upper, filter) >= worst_in(picture, lower, filter) ? upper : lower;
    }
    return rect.first_row;
}

/// From the tile with the largest quotient on, until no other can hold a larger one.
WorstRow worst_row_of(Session& session, const Document& document, const BadList& list,
                      std::vector<BadPlace> tiles, const BadPlace& range) {
    sort_bad_places(tiles, BadColumn::worst, true);
    WorstRow worst{.row = range.row, .worst = 0};
    for (std::size_t i = 0; i < tiles.size() && (i == 0 || tiles[i].worst > worst.worst); ++i) {
        if (i == most_pictures) {
            worst.exact = false;
            break;
        }
        const auto [picture, rect] = part_of(session, document, list, tiles[i], range);
        if (picture == nullptr) return {.complete = false, .row = range.row};
        worst.exact = worst.exact && picture->holds_elements();
        const float value = worst_in(*picture, rect, list.filter);
        if (value <= worst.worst) continue;
        worst.worst = value;
        worst.row = worst_row_in(*picture, rect, list.filter);
    }
    return worst;
}

/// Sets what the pictures say. False: they are being made.
bool refine(Session& session, const Document& document, const BadList& list,
            const std::vector<BadPlace>& tiles, BadPlace& range) {
    const WorstRow worst = worst_row_of(session, document, list, tiles, range);
    if (!worst.complete) return false;
    if (!worst.exact) return true;
    std::vector<BadPlace> in_order = tiles;
    sort_bad_places(in_order, BadColumn::kv_tile, false);
    for (const BadPlace& tile : in_order) {
        const auto [picture, rect] = part_of(session, document, list, tile, range);
        if (picture == nullptr) return false;
        if (!diverges(picture->worst_of(rect), list.filter)) continue;
        range.kv_tile = tile.kv_tile;
        range.worst = worst.worst;
        range.exact = true;
        break;
    }
    return true;
}

}  // namespace

std::vector<BadPlace> join_rows(const Document& document, const BadList& list,
                                const std::vector<BadPlace>& rows) {
    std::vector<BadPlace> ranges;
    for (const BadPlace& row : rows) {
        const bool goes_on = !ranges.empty() && ranges.back().batch == row.batch &&
                             ranges.back().head == row.head && ranges.back().last_row + 1 == row.row;
        if (!goes_on) {
            ranges.push_back(row);
        } else {
            ranges.back().last_row = row.row;
            ranges.back().elements += row.elements;
        }
    }
    const std::int64_t block = rows_of_tile(document, list);
    const Bands bands = bands_of(document, list);
    std::map<Band, int> ranges_of_band;
    const auto for_each_band = [&](const BadPlace& range, const auto& visit) {
        for (std::int64_t band = range.row / block; band <= range.last_row / block; ++band)
            visit(Band{range.batch, range.head, band});
    };
    for (const BadPlace& range : ranges)
        for_each_band(range, [&](const Band& band) { ++ranges_of_band[band]; });
    for (BadPlace& range : ranges) {
        for_each_band(range, [&](const Band& band) { range.exact &= ranges_of_band[band] == 1; });
        const std::vector<BadPlace> tiles = tiles_of(bands, range, block);
        for (const BadPlace& tile : tiles) range.worst = std::max(range.worst, tile.worst);
        if (!tiles.empty()) range.kv_tile = std::ranges::min(tiles, {}, &BadPlace::kv_tile).kv_tile;
    }
    return ranges;
}

bool refine_ranges(Session& session, const Document& document, const BadList& list,
                   std::vector<BadPlace>& ranges) {
    /// Tiles that are looked at between two frames.
    constexpr std::size_t most_tiles = 4096;
    if (std::ranges::all_of(ranges, &BadPlace::exact)) return true;
    const std::int64_t block = rows_of_tile(document, list);
    const Bands bands = bands_of(document, list);
    std::set<Plane> planes;
    std::size_t count = 0;
    for (const BadPlace& range : ranges) {
        if (range.exact) continue;
        for (const BadPlace& tile : tiles_of(bands, range, block)) {
            planes.insert(
                corner_of(document.problem(), list.stage, {tile.batch, tile.head, tile.q_block, tile.kv_tile})
                    .plane);
            if (++count > most_tiles || planes.size() > most_pictures) return true;
        }
    }
    bool complete = true;
    for (BadPlace& range : ranges) {
        if (range.exact) continue;
        const bool refined = refine(session, document, list, tiles_of(bands, range, block), range);
        complete = complete && refined;
    }
    return complete;
}

WorstRow worst_row(Session& session, const Document& document, const BadList& list, const BadPlace& range) {
    const std::vector<BadPlace> tiles =
        tiles_of(bands_of(document, list), range, rows_of_tile(document, list));
    return worst_row_of(session, document, list, tiles, range);
}

}  // namespace tilescope::viewer
