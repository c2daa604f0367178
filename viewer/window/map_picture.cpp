#include "viewer/window/map_picture.h"

#include <algorithm>
#include <cmath>

namespace tilescope::viewer {

namespace {

constexpr auto between_drawings = std::chrono::milliseconds(150);

int height_of(const MapGrid& grid) {
    return grid.rows() * grid.cell_height;
}

}  // namespace

Box MapGrid::cell(std::int64_t index) const {
    return {float(index % columns * cell_width), float(index / columns * cell_height),
            float(cell_width - gap), float(cell_height - gap)};
}

MapGrid arrange_heads(std::int64_t heads, std::int64_t tile_rows, std::int64_t tile_cols, int width,
                      int height, int gap, int smallest) {
    MapGrid best{heads, 1, std::max(1, width), std::max(1, height), gap};
    double largest = -1;
    const double aspect = std::clamp(double(tile_rows) / double(tile_cols), 0.5, 2.0);
    const auto most = int(std::min<std::int64_t>(heads, std::max(1, width / smallest)));
    for (int columns = 1; columns <= most; ++columns) {
        MapGrid grid{heads, columns, std::max(width / columns, smallest), 0, gap};
        grid.cell_height = std::max(int((grid.cell_width - gap) * aspect) + gap, smallest);
        // One row of heads may fill the height: square tiles matter less than large ones.
        if (height_of(grid) > height && grid.rows() * smallest <= height)
            grid.cell_height = std::max(smallest, height / grid.rows());
        const double overflow = std::max(0, height_of(grid) - height);
        const double size = double(grid.cell_width - gap) * (grid.cell_height - gap) - 1e6 * overflow;
        if (size > largest || columns == 1) {
            largest = size;
            best = grid;
        }
    }
    return best;
}

ImageStyle MapPicture::style(int mark_pixels) {
    return {{ScaleKind::log, 0.01, 100, 1}, ColourMap::budget, mark_pixels};
}

void MapPicture::draw(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid,
                      int scroll, int mark_pixels) {
    std::ranges::fill(image_.pixels, 0U);
    conflicts_ = map.bad_tiles(stage);
    std::erase_if(conflicts_, [&](const TileId& tile) { return map.at(stage, tile).conflicting == 0; });
    const std::int64_t heads = stage_heads(problem, stage);
    for (std::int64_t index = 0; index < grid.heads; ++index) {
        const Box box = grid.cell(index);
        const int top = int(box.y) - scroll;
        if (top + int(box.height) <= 0 || top >= image_.height) continue;
        auto picture = map.picture(stage, index / heads, index % heads);
        if (picture == nullptr) picture = map.empty_picture(stage);
        if (cell_.width != int(box.width) || cell_.height != int(box.height))
            cell_ = Image(int(box.width), int(box.height));
        render(*picture, {}, {0, 0, double(picture->rows()), double(picture->cols())}, style(mark_pixels),
               cell_);
        for (int y = std::max(0, -top); y < cell_.height && top + y < image_.height; ++y) {
            const int width = std::min(cell_.width, image_.width - int(box.x));
            if (width <= 0) break;
            std::copy_n(cell_.pixels.begin() + std::ptrdiff_t(y) * cell_.width, width,
                        image_.pixels.begin() + std::ptrdiff_t(top + y) * image_.width + int(box.x));
        }
    }
}

void* MapPicture::texture(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid,
                          int scroll, int width, int height, std::uint64_t generation, int mark_pixels) {
    if (width <= 0 || height <= 0) return nullptr;
    const Shown now{&map, map.version(), generation, stage, scroll, width, height, mark_pixels};
    Shown same_but_version = now;
    same_but_version.version = shown_.version;
    const auto time = std::chrono::steady_clock::now();
    const bool soon = texture_ != nullptr && same_but_version == shown_ && time - drawn_ < between_drawings;
    if (texture_ != nullptr && (now == shown_ || soon)) return texture_->id();
    shown_ = now;
    drawn_ = time;
    if (image_.width != width || image_.height != height) image_ = Image(width, height);
    draw(map, problem, stage, grid, scroll, mark_pixels);
    if (texture_ == nullptr) texture_ = std::make_unique<Texture>();
    texture_->upload(image_);
    return texture_->id();
}

}  // namespace tilescope::viewer
