#include "viewer/detail_store.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

namespace tilescope::viewer {

namespace {

constexpr std::size_t most_asked = 8;
/// Frames ask for a few parts each: so many later it is not shown any more.
constexpr std::uint64_t shown_now = 2 * most_asked;

/// Tile rows and columns that the elements touch, inside the plane.
Rect tiles_under(const PlaneShape& shape, const Rect& elements) {
    const auto inside = [](std::int64_t x, std::int64_t size) {
        return std::clamp<std::int64_t>(x, 0, size);
    };
    const Rect cut{inside(elements.first_row, shape.rows), inside(elements.first_col, shape.cols),
                   inside(elements.last_row, shape.rows), inside(elements.last_col, shape.cols)};
    if (cut.empty()) return {};
    return {cut.first_row / shape.tile_rows, cut.first_col / shape.tile_cols,
            (cut.last_row - 1) / shape.tile_rows + 1, (cut.last_col - 1) / shape.tile_cols + 1};
}

TileId tile_at_place(const Problem& problem, const Plane& plane, std::int64_t down, std::int64_t across) {
    const PlaneShape shape = plane_shape(problem, plane.stage);
    return place_in_tile(problem, plane, down * shape.tile_rows, across * shape.tile_cols).tile;
}

}  // namespace

template <class Visit>
void DetailStore::for_missing(const Problem& problem, const Plane& plane, const Rect& tiles,
                              Visit visit) const {
    for (std::int64_t down = tiles.first_row; down < tiles.last_row; ++down) {
        for (std::int64_t across = tiles.first_col; across < tiles.last_col; ++across) {
            const Key key{plane.stage, tile_at_place(problem, plane, down, across)};
            if (!tiles_.contains(key)) visit(key, down, across);
        }
    }
}

DetailTiles DetailStore::ask(const Problem& problem, const Plane& plane, Quantity quantity,
                             const Rect& elements) {
    DetailTiles details{plane, plane_shape(problem, plane.stage), quantity, 0, 0, 0, 0, {}};
    const Rect tiles = tiles_under(details.shape, elements);
    const std::int64_t count = (tiles.last_row - tiles.first_row) * (tiles.last_col - tiles.first_col);
    const std::int64_t elements_of_tile = details.shape.tile_rows * details.shape.tile_cols;
    if (count <= 0 || count * elements_of_tile * detail_bytes_of_element > most_bytes_) return details;
    details.first_down = tiles.first_row;
    details.first_across = tiles.first_col;
    details.down = tiles.last_row - tiles.first_row;
    details.across = tiles.last_col - tiles.first_col;
    ++clock_;
    bool missing = false;
    for (std::int64_t down = tiles.first_row; down < tiles.last_row; ++down) {
        for (std::int64_t across = tiles.first_col; across < tiles.last_col; ++across) {
            const auto found = tiles_.find({plane.stage, tile_at_place(problem, plane, down, across)});
            if (found != tiles_.end()) found->second.used = clock_;
            missing = missing || found == tiles_.end();
            details.tiles.push_back(found != tiles_.end() ? found->second.tile : nullptr);
        }
    }
    keep_asking(plane, tiles, missing);
    return details;
}

void DetailStore::keep_asking(const Plane& plane, const Rect& tiles, bool missing) {
    std::erase_if(asked_, [&](const Asked& asked) {
        return (asked.plane == plane && asked.tiles == tiles) || asked.used + shown_now < clock_;
    });
    if (!missing) return;
    if (asked_.size() == most_asked) asked_.erase(asked_.begin());
    asked_.push_back({plane, tiles, clock_});
}

std::optional<DetailStore::Band> DetailStore::next(const Problem& problem) const {
    std::optional<Band> band;
    for (auto newest = asked_.rbegin(); newest != asked_.rend() && !band; ++newest)
        band = middle_of(problem, *newest);
    if (!band) return std::nullopt;
    // The replay of a query block computes every stage: what other planes ask of it comes with it.
    for (const Asked& asked : asked_) {
        for_missing(problem, asked.plane, asked.tiles, [&](const Key& key, std::int64_t, std::int64_t) {
            const TileId& tile = key.second;
            const bool same_pass = stage_info(key.first).per_q_block == band->per_q_block;
            if (same_pass && tile.batch == band->batch && tile.head == band->head &&
                tile.q_block == band->q_block)
                band->tiles.insert(key);
        });
    }
    return band;
}

std::optional<DetailStore::Band> DetailStore::middle_of(const Problem& problem, const Asked& asked) const {
    const Rect& tiles = asked.tiles;
    std::optional<Band> band;
    std::int64_t nearest = std::numeric_limits<std::int64_t>::max();
    for_missing(problem, asked.plane, tiles, [&](const Key& key, std::int64_t down, std::int64_t across) {
        const std::int64_t distance = std::abs(2 * down + 1 - tiles.first_row - tiles.last_row) +
                                      std::abs(2 * across + 1 - tiles.first_col - tiles.last_col);
        if (distance >= nearest) return;
        nearest = distance;
        band = Band{
            key.second.batch, key.second.head, key.second.q_block, stage_info(key.first).per_q_block, {}};
    });
    return band;
}

void DetailStore::put(const Key& key, std::shared_ptr<const DetailTile> tile) {
    Entry& entry = tiles_[key];
    if (entry.tile != nullptr) bytes_ -= entry.tile->bytes();
    entry = {std::move(tile), clock_};
    if (entry.tile != nullptr) bytes_ += entry.tile->bytes();
    make_room();
}

void DetailStore::make_room() {
    if (bytes_ <= most_bytes_) return;
    // Several at once, so that not every tile asks for a look at all of them; none that frames show now.
    std::vector<std::pair<std::uint64_t, Key>> by_age;
    for (const auto& [key, entry] : tiles_) by_age.emplace_back(entry.used, key);
    std::ranges::sort(by_age);
    for (const auto& [used, key] : by_age) {
        if (bytes_ <= most_bytes_ * 3 / 4 || used + shown_now >= clock_) break;
        const auto found = tiles_.find(key);
        if (found->second.tile != nullptr) bytes_ -= found->second.tile->bytes();
        tiles_.erase(found);
    }
}

void DetailStore::clear() {
    tiles_.clear();
    asked_.clear();
    bytes_ = 0;
}

}  // namespace tilescope::viewer
