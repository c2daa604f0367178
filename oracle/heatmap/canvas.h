#pragma once

#include <string_view>

#include "oracle/heatmap/heatmap_image.h"

namespace tilescope {

// What is drawn around a heatmap. What lies outside of the image is left out.

struct PixelBox {
    int left = 0;
    int top = 0;
    int width = 0;
    int height = 0;

    int right() const { return left + width; }
    int bottom() const { return top + height; }
};

void fill_box(Image& image, const PixelBox& box, Colour colour);
/// A line of one pixel around the box.
void outline_box(Image& image, const PixelBox& box, Colour colour);
/// A smooth ring of that inner and outer radius.
void draw_ring(Image& image, double x, double y, double inner, double outer, Colour colour);
/// Copies the image; transparent pixels leave what is there.
void place_image(Image& image, const Image& part, int left, int top);

/// Letters, with the gap after each, and lines of them.
inline constexpr int letter_width = 12;
inline constexpr int letter_height = 14;  ///< of capitals and digits
inline constexpr int line_height = 22;

/// In ASCII; every other character is shown as '?'.
int text_width(std::string_view text);
/// `top` is that of the capitals.
void draw_text(Image& image, int left, int top, std::string_view text, Colour colour);

}  // namespace tilescope
