#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "oracle/heatmap/detail.h"
#include "oracle/heatmap/pyramid.h"

namespace tilescope::viewer {

/// The detail tiles that are kept, and those that are asked for. Not thread-safe: its owner holds a lock.
class DetailStore {
 public:
    using Key = std::pair<Stage, TileId>;
    /// Tiles that one query block's replay computes.
    struct Band {
        std::int64_t batch = 0;
        std::int64_t head = 0;
        std::int64_t q_block = 0;
        bool per_q_block = true;  ///< false: stages without query blocks, of a head
        std::set<Key> tiles;
    };

    explicit DetailStore(std::int64_t bytes) : most_bytes_(bytes) {}

    /// What is there of the tiles that `elements` touches; remembers that the others are asked for, unless
    /// asking was stopped. Nothing where they are too many to be kept.
    DetailTiles ask(const Problem& problem, const Plane& plane, Quantity quantity, const Rect& elements);
    /// The band of a tile in the middle of what was asked for last; nullopt when everything is there.
    std::optional<Band> next() const;
    /// Whether something that was asked for is not there.
    bool waiting() const { return !asked_.empty(); }
    /// Null: there is no such tile.
    void put(const Key& key, std::shared_ptr<const DetailTile> tile);
    /// Forgets what is asked for, and ignores further requests until asking is allowed again.
    void stop_asking();
    void allow_asking() { stopped_ = false; }
    void clear();

 private:
    struct Entry {
        std::shared_ptr<const DetailTile> tile;
        std::uint64_t used = 0;
    };
    /// Tile row and tile column.
    using Place = std::pair<std::int64_t, std::int64_t>;
    struct Asked {
        Plane plane;
        Rect tiles;  ///< tile rows and tile columns of the plane
        std::map<Key, Place> missing;
        std::uint64_t used = 0;
        bool per_q_block = true;
    };
    /// Several panels may ask for parts of one plane; what was not asked for again in a while is forgotten.
    void keep_asking(Asked asked);
    static Band middle_of(const Asked& asked);
    void make_room();

    std::int64_t most_bytes_;
    std::int64_t bytes_ = 0;
    std::uint64_t clock_ = 0;
    bool stopped_ = false;
    std::map<Key, Entry> tiles_;
    std::vector<Asked> asked_;
};

}  // namespace tilescope::viewer
