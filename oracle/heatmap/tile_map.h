#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <tuple>
#include <vector>

#include "dump/recording.h"
#include "oracle/heatmap/plane.h"
#include "oracle/heatmap/pyramid.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope {

/// How a whole tile fares.
struct TileFinding {
    enum class State : std::uint8_t {
        not_captured,
        not_judged,  ///< or not yet: then it may be not captured as well
        captured,
        missing  ///< the kernel should have written it
    };
    State state = State::not_captured;
    float worst = 0;  ///< largest |difference| / tolerance; the largest float32 where that is not finite
    std::uint32_t outside = 0;
    std::uint32_t nan = 0;
    std::uint32_t infinite = 0;
    std::uint32_t unwritten = 0;
    std::uint32_t conflicting = 0;
    std::uint32_t inherited = 0;
    KindFlags kinds = 0;  ///< of Quantity::over_budget

    bool bad() const { return outside > 0 || conflicting > 0 || state == State::missing; }
};

/// Judges a tile for the map: the same counts as those of the report. `over_budget`: its values_of() that
/// quantity. `bad_rows`, where given, receives its rows with an element that diverges.
TileFinding finding_of(const ObservedTile& tile, const QuantityValues& over_budget,
                       std::vector<BadRow>* bad_rows = nullptr);

/// Whether the tile was asked for, the kernel cannot do without it, the run got to its end, and yet it is not
/// there. Of two recordings: in both.
bool is_missing(const Recording& recording, const Recording* other, Stage stage, const TileId& tile);

/// Sets the elements of missing tiles of a plane, whose other tiles are set, as unwritten.
void set_missing_tiles(const Recording& recording, const Recording* other, const Plane& plane,
                       Pyramid& pyramid);

/// Sets the elements of tiles of a plane that are there and were not set, as not judged.
void set_unjudged_tiles(const Recording& recording, const Plane& plane, Pyramid& pyramid);

/// What occurs in the tiles of a stage: the marks that a legend has to name.
struct MarksSeen {
    KindFlags kinds = 0;
    bool conflicting = false;
};

/// Every tile of a recording. Thread-safe: filled while it is looked at.
class TileMap {
 public:
    explicit TileMap(const Problem& problem) : problem_(problem) {}

    void set(Stage stage, const TileId& tile, const TileFinding& finding);
    TileFinding at(Stage stage, const TileId& tile) const;
    MarksSeen seen(Stage stage) const;
    /// Tiles that diverge, in order (batch, head, KV tile, query block).
    std::vector<TileId> bad_tiles(Stage stage) const;
    /// Query blocks by KV tiles (one column where the stage has none), with `worst` as values and what was
    /// found as kinds: for render(). Null where nothing of the head was captured.
    std::shared_ptr<const Pyramid> picture(Stage stage, std::int64_t batch, std::int64_t head) const;
    /// The same where nothing of the head was captured, or not yet judged.
    std::shared_ptr<const Pyramid> empty_picture(Stage stage) const;
    std::uint64_t version() const { return version_; }

    /// Adds what no observer is shown: conflicts, tiles that should have been written, in both recordings
    /// where there is another, and those that were recorded and not judged.
    void finish(const Recording& recording, const Recording* other);
    /// Adds the tiles that are not there from a map that is finished.
    void finish_from(const TileMap& other);

 private:
    struct Head {
        std::vector<TileFinding> tiles;  ///< q block by KV tile
        std::shared_ptr<Pyramid> picture;
    };
    using Key = std::tuple<Stage, std::int64_t, std::int64_t>;

    std::int64_t columns(Stage stage) const;
    std::size_t index(Stage stage, const TileId& tile) const;
    void end();
    Head& head_of(Stage stage, const TileId& tile);

    Problem problem_;
    mutable std::shared_mutex mutex_;
    std::map<Key, Head> heads_;
    std::map<Stage, MarksSeen> seen_;
    bool finished_ = false;
    std::atomic<std::uint64_t> version_ = 0;
};

}  // namespace tilescope
