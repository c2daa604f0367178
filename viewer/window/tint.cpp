#include "viewer/window/tint.h"

#include <algorithm>
#include <cmath>

namespace tilescope::viewer {

namespace {

constexpr double share_of_colour = 0.5;
constexpr double share_of_dark = 0.72;

std::uint8_t byte_of(double share) {
    return std::uint8_t(std::lround(255 * std::clamp(share, 0.0, 1.0)));
}

/// Of full saturation at `hue`, from 0 to 1.
Colour rainbow(double hue) {
    const auto channel = [&](double at) {
        const double away = std::abs(std::fmod(hue - at + 1.5, 1.0) - 0.5);
        return byte_of(1.9 - 6 * away + 0.1);
    };
    return {channel(0), channel(1.0 / 3), channel(2.0 / 3), byte_of(share_of_colour)};
}

std::uint32_t blended(std::uint32_t below, Colour above) {
    const auto mix = [&](unsigned shift, std::uint8_t colour) {
        const std::uint32_t old = (below >> shift) & 0xffU;
        return ((old * (255U - above.a) + std::uint32_t(colour) * above.a) / 255U) << shift;
    };
    return (below & 0xff000000U) | mix(0, above.r) | mix(8, above.g) | mix(16, above.b);
}

}  // namespace

Colour colour_of_number(int number) {
    // The golden ratio leaves the largest gaps between however many there are.
    constexpr double golden = 0.6180339887498949;
    return rainbow(std::fmod(0.05 + golden * number, 1.0));
}

Colour dimmed(Colour below) {
    const double kept = double(below.a) / 255 * (1 - share_of_dark);
    const double covered = 1 - (1 - double(below.a) / 255) * (1 - share_of_dark);
    const auto darker = [&](std::uint8_t colour) { return byte_of(colour / 255.0 * kept / covered); };
    return {darker(below.r), darker(below.g), darker(below.b), byte_of(covered)};
}

void apply(const Tint& tint, const PlaneView& view, Image& image) {
    const Rect& rect = tint.elements;
    const std::int64_t cols = rect.last_col - rect.first_col;
    const auto element_at = [](double first, double size, int pixel, int pixels) {
        return std::int64_t(std::floor(first + (pixel + 0.5) / pixels * size));
    };
    std::vector<std::int64_t> col_of(std::size_t(image.width));
    for (int x = 0; x < image.width; ++x)
        col_of[std::size_t(x)] = element_at(view.first_col, view.cols, x, image.width);
    for (int y = 0; y < image.height; ++y) {
        const std::int64_t row = element_at(view.first_row, view.rows, y, image.height);
        if (row < rect.first_row || row >= rect.last_row) continue;
        for (int x = 0; x < image.width; ++x) {
            const std::int64_t col = col_of[std::size_t(x)];
            if (col < rect.first_col || col >= rect.last_col) continue;
            std::uint32_t& pixel = image.pixels[std::size_t(y) * std::size_t(image.width) + std::size_t(x)];
            pixel = blended(pixel,
                            tint.colours[std::size_t((row - rect.first_row) * cols + col - rect.first_col)]);
        }
    }
}

}  // namespace tilescope::viewer
