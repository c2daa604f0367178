#include "viewer/window/cell_picture.h"

#include <algorithm>

namespace tilescope::viewer {

void CellPicture::paint(const PaintedCell& cell) {
    const std::uint32_t flat = packed(colour_of(cell.value, style_.scale, style_.colours));
    const int last_x = std::min(image_.width, cell.x + cell.width);
    const int last_y = std::min(image_.height, cell.y + cell.height);
    for (int y = std::max(0, cell.y); y < last_y; ++y) {
        for (int x = std::max(0, cell.x); x < last_x; ++x) {
            std::uint32_t& pixel = image_.pixels[std::size_t(y) * std::size_t(image_.width) + std::size_t(x)];
            pixel = cell.kind == Kind::finite
                        ? flat
                        : packed(colour_of(cell.kind, x / style_.mark_pixels, y / style_.mark_pixels));
        }
    }
}

TextureName CellPicture::texture(int width, int height, const std::vector<PaintedCell>& cells,
                                 const ImageStyle& style) {
    if (width <= 0 || height <= 0) return 0;
    const bool same = texture_ != nullptr && image_.width == width && image_.height == height &&
                      cells_ == cells && style_ == style;
    if (same) return texture_->name();
    cells_ = cells;
    style_ = style;
    image_ = Image(width, height);
    for (const PaintedCell& cell : cells) paint(cell);
    if (texture_ == nullptr) texture_ = std::make_unique<Texture>();
    texture_->upload(image_);
    return texture_->name();
}

}  // namespace tilescope::viewer
