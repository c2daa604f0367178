#pragma once

#include <cstdint>
#include <vector>

#include "oracle/heatmap/detail.h"
#include "oracle/heatmap/pyramid.h"

namespace tilescope {

/// RGBA, 8 bits each, rows from the top.
struct Image {
    int width = 0;
    int height = 0;
    std::vector<std::uint32_t> pixels;  ///< packed()

    Image() = default;
    Image(int w, int h) : width(w), height(h), pixels(std::size_t(w) * std::size_t(h)) {}
    std::uint32_t at(int x, int y) const { return pixels[std::size_t(y) * std::size_t(width) + x]; }
};

/// The part of a plane that an image shows, in elements.
struct PlaneView {
    double first_row = 0;
    double first_col = 0;
    double rows = 1;
    double cols = 1;

    bool operator==(const PlaneView&) const = default;
};

struct ImageStyle {
    Scale scale;
    ColourMap colours = ColourMap::sequential;
    int mark_pixels = 1;  ///< of the image for each of a kind's pattern

    bool operator==(const ImageStyle&) const = default;
};

/// Fills the image, whose size is set. Each pixel shows the worst of what it covers: NaN before unwritten
/// before infinities before what is inherited before the finite value of the largest magnitude (Scale::log:
/// the largest), and before the inherited one that is beyond its budget. Elements that `details` holds are
/// exact where one covers a pixel or more; elsewhere what the pyramid has. Outside the plane pixels are
/// transparent; what is not there yet is shown as Kind::not_judged.
void render(const Pyramid& pyramid, const DetailTiles& details, const PlaneView& view,
            const ImageStyle& style, Image& image);
/// Fills rows [first, last) of the image, as render() does: rows of one image may be filled by several threads.
void render_rows(const Pyramid& pyramid, const DetailTiles& details, const PlaneView& view,
                 const ImageStyle& style, int first, int last, Image& image);

/// The quantity's colours; sequential in place of diverging ones where all values have one sign.
ColourMap fitting_colours(const Pyramid& pyramid, Quantity quantity);

/// A scale that fits what the pyramid holds: `clip` as Pyramid::range. Symmetric about 0 where the quantity
/// is signed and takes both signs; over_budget: symmetric about 1.
Scale fitting_scale(const Pyramid& pyramid, Quantity quantity, ScaleKind kind, double clip);

}  // namespace tilescope
