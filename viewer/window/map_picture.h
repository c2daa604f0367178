#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "oracle/heatmap/tile_map.h"
#include "viewer/window/readout.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// Where the heads stand on the map, in pixels.
struct MapGrid {
    std::int64_t heads = 1;  ///< batch x heads
    int columns = 1;
    int cell_width = 1;  ///< with the gap to the next
    int cell_height = 1;
    int gap = 0;

    Box cell(std::int64_t index) const;
    int rows() const { return int((heads + columns - 1) / columns); }
};

/// As large as the heads can be in the room; smaller than `smallest` they are not, and the map is scrolled.
MapGrid arrange_heads(std::int64_t heads, std::int64_t tile_rows, std::int64_t tile_cols, int width,
                      int height, int gap, int smallest);

/// The map of all heads of a stage, as one texture.
class MapPicture {
 public:
    static ImageStyle style(int mark_pixels);
    /// From the pixel row `scroll` of the grid on. Made again where the map changed, but not for every tile
    /// that is judged.
    void* texture(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid, int scroll,
                  int width, int height, std::uint64_t generation, int mark_pixels);
    /// Tiles of the stage with conflicting writes.
    const std::vector<TileId>& conflicts() const { return conflicts_; }

 private:
    void draw(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid, int scroll,
              int mark_pixels);

    struct Shown {
        const TileMap* map = nullptr;
        std::uint64_t version = 0;
        std::uint64_t generation = 0;
        Stage stage = Stage::q;
        int scroll = 0;
        int width = 0;
        int height = 0;
        int mark_pixels = 1;
        bool operator==(const Shown&) const = default;
    };
    Shown shown_;
    std::chrono::steady_clock::time_point drawn_;
    std::vector<TileId> conflicts_;
    Image image_;
    Image cell_;
    std::unique_ptr<Texture> texture_;
};

}  // namespace tilescope::viewer
