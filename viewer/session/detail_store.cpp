#include "viewer/session/detail_store.h"

#include <algorithm>
#include <cstdlib>
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
    Asked asked{plane, tiles, {}, clock_, stage_info(problem, plane.stage).per_q_block};
    for (std::int64_t down = tiles.first_row; down < tiles.last_row; ++down) {
        for (std::int64_t across = tiles.first_col; across < tiles.last_col; ++across) {
            const Key key{plane.stage, tile_at_place(problem, plane, down, across)};
            const auto found = tiles_.find(key);
            if (found != tiles_.end()) {
                found->second.used = clock_;
            } else {
                asked.missing[key] = {down, across};
            }
            details.tiles.push_back(found != tiles_.end() ? found->second.tile : nullptr);
        }
    }
    keep_asking(std::move(asked));
    return details;
}

void DetailStore::keep_asking(Asked asked) {
    std::erase_if(asked_, [&](const Asked& other) {
        return (other.plane == asked.plane && other.tiles == asked.tiles) || other.used + shown_now < clock_;
    });
    if (asked.missing.empty() || stopped_) return;
    if (asked_.size() == most_asked) asked_.erase(asked_.begin());
    asked_.push_back(std::move(asked));
}

void DetailStore::stop_asking() {
    asked_.clear();
    stopped_ = true;
}

std::optional<DetailStore::Band> DetailStore::next() const {
    if (asked_.empty()) return std::nullopt;
    Band band = middle_of(asked_.back());
    // The replay of a query block computes every stage: what other planes ask of it comes with it.
    for (const Asked& asked : asked_) {
        for (const auto& [key, place] : asked.missing) {
            const TileId& tile = key.second;
            const bool same_pass = asked.per_q_block == band.per_q_block;
            if (same_pass && tile.batch == band.batch && tile.head == band.head &&
                tile.q_block == band.q_block)
                band.tiles.insert(key);
        }
    }
    return band;
}

DetailStore::Band DetailStore::middle_of(const Asked& asked) {
    const Rect& tiles = asked.tiles;
    const auto distance = [&](const auto& missing) {
        const auto [down, across] = missing.second;
        return std::abs(2 * down + 1 - tiles.first_row - tiles.last_row) +
               std::abs(2 * across + 1 - tiles.first_col - tiles.last_col);
    };
    const auto& [key, place] = *std::ranges::min_element(asked.missing, {}, distance);
    return {key.second.batch, key.second.head, key.second.q_block, asked.per_q_block, {}};
}

void DetailStore::put(const Key& key, std::shared_ptr<const DetailTile> tile) {
    Entry& entry = tiles_[key];
    if (entry.tile != nullptr) bytes_ -= entry.tile->bytes();
    entry = {std::move(tile), clock_};
    if (entry.tile != nullptr) bytes_ += entry.tile->bytes();
    for (Asked& asked : asked_) asked.missing.erase(key);
    std::erase_if(asked_, [](const Asked& asked) { return asked.missing.empty(); });
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
    stopped_ = false;
    bytes_ = 0;
}

}  // namespace tilescope::viewer
