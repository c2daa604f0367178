#include "viewer/window/map_picture.h"

#include <algorithm>
#include <cmath>

namespace tilescope::viewer {

namespace {

constexpr auto between_drawings = std::chrono::milliseconds(150);

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

}  // namespace

HeadGroups head_groups(const Problem& problem, Stage stage) {
    const std::int64_t heads = stage_heads(problem, stage);
    // Interleaved ones do not lie side by side.
    const std::int64_t sharing = problem.is_interleaved() ? 1 : heads / problem.heads_kv;
    return sharing > 1 ? HeadGroups{problem.batch * problem.heads_kv, sharing}
                       : HeadGroups{problem.batch, heads};
}

int MapGrid::group_height() const {
    return room.label + int(divide_up(heads.heads, columns)) * cell_height + room.between;
}
int MapGrid::width() const {
    return across * group_width() - room.between;
}
int MapGrid::height() const {
    return int(divide_up(heads.groups, across)) * group_height() - room.between;
}

Box MapGrid::group(std::int64_t index) const {
    return {float(index % across * group_width()), float(index / across * group_height()),
            float(columns * cell_width - room.gap_across), float(group_height() - room.between)};
}

Box MapGrid::cell(std::int64_t index) const {
    const Box in = group(index / heads.heads);
    const std::int64_t head = index % heads.heads;
    return {in.x + float(head % columns * cell_width),
            in.y + float(room.label + head / columns * cell_height), float(cell_width - room.gap_across),
            float(cell_height - room.gap_down)};
}

std::optional<std::int64_t> MapGrid::head_at(float x, float y) const {
    if (x < 0 || y < 0 || x >= float(width()) || y >= float(height())) return std::nullopt;
    const std::int64_t group = std::int64_t(y) / group_height() * across + std::int64_t(x) / group_width();
    const std::int64_t column = std::int64_t(x) % group_width() / cell_width;
    const std::int64_t down = std::int64_t(y) % group_height() - room.label;
    const std::int64_t head = down / cell_height * columns + column;
    if (down < 0 || column >= columns || head >= heads.heads || group >= heads.groups) return std::nullopt;
    return group * heads.heads + head;
}

MapGrid MapGrid::zoomed(double zoom) const {
    const auto scaled = [&](int size, int gap) {
        return std::max(1, int(std::lround((size - gap) * zoom))) + gap;
    };
    MapGrid grid = *this;
    grid.cell_width = scaled(cell_width, room.gap_across);
    grid.cell_height = scaled(cell_height, room.gap_down);
    return grid;
}

MapGrid arrange_heads(const HeadGroups& heads, std::int64_t tile_rows, std::int64_t tile_cols,
                      const MapRoom& room) {
    MapGrid best{heads, room, 1, 1, std::max(1, room.width), std::max(1, room.height)};
    double largest = -1;
    const double aspect = std::clamp(double(tile_rows) / double(tile_cols), 0.5, 2.0);
    for (int across = 1; across <= heads.groups; ++across) {
        const int width = room.width - (across - 1) * room.between;
        if (across > 1 && width < across * room.smallest) break;
        const auto rows_of_groups = int(divide_up(heads.groups, across));
        const int height = room.height - rows_of_groups * room.label - (rows_of_groups - 1) * room.between;
        for (int columns = 1; columns <= heads.heads; ++columns) {
            if (across * columns > 1 && width < across * columns * room.smallest) break;
            MapGrid grid{heads, room, across, columns, std::max(width / (across * columns), room.smallest),
                         0};
            grid.cell_height =
                std::max(int((grid.cell_width - room.gap_across) * aspect) + room.gap_down, room.smallest);
            // One row of heads may fill the height: square tiles matter less than large ones.
            const auto rows = rows_of_groups * int(divide_up(heads.heads, columns));
            if (rows * grid.cell_height > height && rows * room.smallest <= height)
                grid.cell_height = std::max(room.smallest, height / rows);
            const double overflow = std::max(0, grid.height() - room.height);
            const double size =
                double(grid.cell_width - room.gap_across) * (grid.cell_height - room.gap_down);
            if (size - 1e6 * overflow <= largest && across * columns > 1) continue;
            largest = size - 1e6 * overflow;
            best = grid;
        }
    }
    return best;
}

ImageStyle MapPicture::style(int mark_pixels) {
    return {{ScaleKind::log, 0.01, 100, 1}, ColourMap::budget, mark_pixels};
}

void MapPicture::draw_head(const Pyramid& picture, const Box& box) {
    const int left = int(box.x) - shown_.seen.left;
    const int top = int(box.y) - shown_.seen.top;
    const int first_x = std::max(0, left);
    const int first_y = std::max(0, top);
    const int width = std::min(image_.width, left + int(box.width)) - first_x;
    const int height = std::min(image_.height, top + int(box.height)) - first_y;
    if (width <= 0 || height <= 0) return;
    const double rows = double(picture.rows()) / box.height;
    const double cols = double(picture.cols()) / box.width;
    Image part(width, height);
    render(picture, {}, {(first_y - top) * rows, (first_x - left) * cols, height * rows, width * cols},
           style(shown_.mark_pixels), part);
    for (int y = 0; y < height; ++y)
        std::copy_n(part.pixels.begin() + std::ptrdiff_t(y) * width, width,
                    image_.pixels.begin() + std::ptrdiff_t(first_y + y) * image_.width + first_x);
}

void MapPicture::draw(const TileMap& map, const Problem& problem, const std::vector<bool>& captured) {
    std::ranges::fill(image_.pixels, 0U);
    conflicts_ = map.bad_tiles(shown_.stage);
    std::erase_if(conflicts_,
                  [&](const TileId& tile) { return map.at(shown_.stage, tile).conflicting == 0; });
    const std::int64_t heads = stage_heads(problem, shown_.stage);
    Pyramid none(1, 1);
    none.complete();
    const auto empty = map.empty_picture(shown_.stage);
    for (std::int64_t index = 0; index < shown_.grid.count(); ++index) {
        const auto picture = map.picture(shown_.stage, index / heads, index % heads);
        const Pyramid& known = picture != nullptr ? *picture : *empty;
        draw_head(captured[std::size_t(index)] ? known : none, shown_.grid.cell(index));
    }
}

TextureName MapPicture::texture(const TileMap& map, const Problem& problem, Stage stage, const MapGrid& grid,
                                const MapWindow& seen, const std::vector<bool>& captured,
                                std::uint64_t generation, int mark_pixels) {
    if (seen.width <= 0 || seen.height <= 0) return 0;
    const Shown now{&map, map.version(), generation, stage, grid, seen, mark_pixels};
    Shown same_but_version = now;
    same_but_version.version = shown_.version;
    const auto time = std::chrono::steady_clock::now();
    const bool soon = texture_ != nullptr && same_but_version == shown_ && time - drawn_ < between_drawings;
    behind_ = soon && now != shown_;
    if (texture_ != nullptr && (now == shown_ || soon)) return texture_->name();
    shown_ = now;
    drawn_ = time;
    if (image_.width != seen.width || image_.height != seen.height) image_ = Image(seen.width, seen.height);
    draw(map, problem, captured);
    if (texture_ == nullptr) texture_ = std::make_unique<Texture>();
    texture_->upload(image_);
    return texture_->name();
}

}  // namespace tilescope::viewer
