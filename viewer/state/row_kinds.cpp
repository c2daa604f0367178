#include "viewer/state/row_kinds.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

namespace tilescope::viewer {

namespace {

struct FilterKinds {
    BadFilter filter;
    KindFlags kinds;  ///< flags of Kind
};
/// Those that the pictures know.
constexpr std::array filter_kinds = {
    FilterKinds{BadFilter::nan, flag_of(Kind::nan)},
    FilterKinds{BadFilter::infinite, flag_of(Kind::plus_infinity) | flag_of(Kind::minus_infinity) |
                                         flag_of(Kind::should_be_infinite)},
    FilterKinds{BadFilter::unwritten, flag_of(Kind::unwritten)},
};

using Head = std::pair<std::int64_t, std::int64_t>;
using Pictures = std::map<Head, std::map<Plane, std::shared_ptr<const Pyramid>>>;

/// The planes of the tiles that hold the kind, by head.
Pictures planes_of(const Document& document, const BadList& list) {
    BadList tiles = list;
    tiles.listed = Listed::tiles;
    Pictures pictures;
    for (const BadPlace& place : find_bad_places(document, tiles)) {
        const TileId tile{place.batch, place.head, place.q_block, place.kv_tile};
        pictures[{place.batch, place.head}][corner_of(document.problem(), list.stage, tile).plane];
    }
    return pictures;
}

/// The first row or column of the rectangle, along `first` and `last`, up to which something diverges.
void narrow_to_first(const Pyramid& pyramid, BadFilter filter, Rect& rect, std::int64_t Rect::*first,
                     std::int64_t Rect::*last) {
    while (rect.*last - rect.*first > 1) {
        Rect half = rect;
        half.*last = rect.*first + (rect.*last - rect.*first) / 2;
        if (diverges(pyramid.worst_of(half), filter)) {
            rect = half;
        } else {
            rect.*first = half.*last;
        }
    }
}

/// The bad tiles that hold the place, in order of KV tiles.
std::vector<PlaceInPlane> corners_at(const Document& document, const BadList& list, const BadPlace& place) {
    BadList tiles = list;
    tiles.listed = Listed::tiles;
    const std::int64_t rows = plane_shape(document.problem(), list.stage).tile_rows;
    std::vector<PlaceInPlane> corners;
    for (const BadPlace& other : find_bad_places(document, tiles)) {
        if (other.batch != place.batch || other.head != place.head) continue;
        if (list.listed == Listed::tiles &&
            (other.kv_tile != place.kv_tile || other.q_block != place.q_block))
            continue;
        if (other.row / rows != place.row / rows) continue;
        const TileId tile{other.batch, other.head, other.q_block, other.kv_tile};
        corners.push_back(corner_of(document.problem(), list.stage, tile));
    }
    return corners;
}

}  // namespace

bool diverges(const Summary& found, BadFilter filter) {
    const auto* kinds = std::ranges::find(filter_kinds, filter, &FilterKinds::filter);
    if (kinds != filter_kinds.end()) return (found.kinds & kinds->kinds) != 0;
    const bool any = std::ranges::any_of(
        filter_kinds, [&](const FilterKinds& entry) { return (found.kinds & entry.kinds) != 0; });
    return any || found.max > 1;
}

FirstBad first_bad_element(Session& session, const Document& document, const BadList& list,
                           const BadPlace& place) {
    const PlaneShape shape = plane_shape(document.problem(), list.stage);
    const std::vector<PlaceInPlane> corners = corners_at(document, list, place);
    for (std::size_t i = 0; i < std::min(corners.size(), most_pictures); ++i) {
        const PlaceInPlane& corner = corners[i];
        const auto pyramid = session.request(corner.plane, against(list.against, Quantity::over_budget));
        if (pyramid == nullptr || !pyramid->is_complete()) return {.complete = false, .element = {}};
        Rect rect{corner.row, corner.col, std::min(corner.row + shape.tile_rows, shape.rows),
                  std::min(corner.col + shape.tile_cols, shape.cols)};
        if (list.listed != Listed::tiles) {
            rect.first_row = place.row;
            rect.last_row = place.row + 1;
        }
        if (!diverges(pyramid->worst_of(rect), list.filter)) continue;
        narrow_to_first(*pyramid, list.filter, rect, &Rect::first_row, &Rect::last_row);
        narrow_to_first(*pyramid, list.filter, rect, &Rect::first_col, &Rect::last_col);
        return {.complete = true, .element = PlaceInPlane{corner.plane, rect.first_row, rect.first_col}};
    }
    return {};
}

RowKinds keep_rows_of_kind(Session& session, const Document& document, const BadList& list) {
    RowKinds found{.places = find_bad_places(document, list)};
    const auto* kinds = std::ranges::find(filter_kinds, list.filter, &FilterKinds::filter);
    found.by_tile = list.listed != Listed::tiles && list.filter == BadFilter::conflicting;
    if (list.listed == Listed::tiles || kinds == filter_kinds.end()) return found;
    Pictures pictures = planes_of(document, list);
    std::size_t count = 0;
    for (const auto& [head, planes] : pictures) count += planes.size();
    found.by_tile = count > most_pictures;
    if (found.by_tile) return found;
    for (auto& [head, planes] : pictures) {
        for (auto& [plane, pyramid] : planes) {
            pyramid = session.request(plane, against(list.against, Quantity::over_budget));
            found.complete = found.complete && pyramid != nullptr && pyramid->is_complete();
        }
    }
    if (!found.complete) return found;
    std::erase_if(found.places, [&](const BadPlace& place) {
        const auto planes = pictures.find({place.batch, place.head});
        return planes == pictures.end() || std::ranges::none_of(planes->second, [&](const auto& entry) {
                   const Rect row{place.row, 0, place.row + 1, entry.second->cols()};
                   return (entry.second->worst_of(row).kinds & kinds->kinds) != 0;
               });
    });
    return found;
}

}  // namespace tilescope::viewer
