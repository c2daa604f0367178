#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "oracle/heatmap/tile_map.h"
#include "viewer/window/readout.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// The heads of a stage as they belong together: those of a batch entry that share a KV head, or all of it where none do.
struct HeadGroups {
    std::int64_t groups = 1;
    std::int64_t heads = 1;  ///< of each
    bool operator==(const HeadGroups&) const = default;
};
HeadGroups head_groups(const Problem& problem, Stage stage);

/// What the map has, in pixels.
struct MapRoom {
    int width = 1;
    int height = 1;
    int gap_across = 0;  ///< from a head to the next
    int gap_down = 0;
    int label = 0;     ///< height of a group's name; 0: without
    int between = 0;   ///< from a group to the next
    int smallest = 1;  ///< cells of heads are no smaller
    bool operator==(const MapRoom&) const = default;
};

/// Where the heads stand on the map, in pixels: groups beside and below each other, and in each its heads.
struct MapGrid {
    HeadGroups heads;
    MapRoom room;
    int across = 1;      ///< groups beside each other
    int columns = 1;     ///< heads of a group beside each other
    int cell_width = 1;  ///< with the gap to the next
    int cell_height = 1;

    std::int64_t count() const { return heads.groups * heads.heads; }
    int width() const;
    int height() const;
    /// Its name's place and its heads.
    Box group(std::int64_t index) const;
    /// Of a head, by its number among those of all batch entries.
    Box cell(std::int64_t index) const;
    /// The head whose cell, with the gap beside and below it, is there.
    std::optional<std::int64_t> head_at(float x, float y) const;
    /// The same with larger or smaller heads.
    MapGrid zoomed(double zoom) const;
    bool operator==(const MapGrid&) const = default;

 private:
    int group_width() const { return columns * cell_width + room.between; }
    int group_height() const;
};

/// As large as the heads can be in the room; smaller than the smallest they are not, and only a part of the map is seen.
MapGrid arrange_heads(const HeadGroups& heads, std::int64_t tile_rows, std::int64_t tile_cols,
                      const MapRoom& room);

/// What is seen of a grid.
struct MapWindow {
    int left = 0;
    int top = 0;
    int width = 0;
    int height = 0;
    bool operator==(const MapWindow&) const = default;
};

/// The map of all heads of a stage, as one texture.
class MapPicture {
 public:
    static ImageStyle style(int mark_pixels);
    /// Made again where the map changed, but not for every tile that is judged. `captured`: of each head, whether any of it was.
    TextureName texture(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid,
                        const MapWindow& seen, const std::vector<bool>& captured, std::uint64_t generation,
                        int mark_pixels);
    /// What was judged since the last texture is to be drawn in a moment.
    bool is_behind() const { return behind_; }
    /// Tiles of the stage with conflicting writes.
    const std::vector<TileId>& conflicts() const { return conflicts_; }

 private:
    struct Shown {
        const TileMap* map = nullptr;
        std::uint64_t version = 0;
        std::uint64_t generation = 0;
        Stage stage = Stage::q;
        MapGrid grid;
        MapWindow seen;
        int mark_pixels = 1;
        bool operator==(const Shown&) const = default;
    };
    void draw(const TileMap& map, const Problem& problem, const std::vector<bool>& captured);
    void draw_head(const Pyramid& picture, const Box& box);

    Shown shown_;
    bool behind_ = false;
    std::chrono::steady_clock::time_point drawn_;
    std::vector<TileId> conflicts_;
    Image image_;
    std::unique_ptr<Texture> texture_;
};

}  // namespace tilescope::viewer
