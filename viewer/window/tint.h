#pragma once

#include <cstdint>
#include <vector>

#include "oracle/heatmap/heatmap_image.h"

namespace tilescope::viewer {

/// Colours laid over some elements of a plane, as much of each as its `a` says.
struct Tint {
    Rect elements;
    std::vector<Colour> colours;  ///< row-major
};

/// Distinct from those of the numbers next to it.
Colour colour_of_number(int number);
/// What is left of `below`, a colour laid over the picture, where a dark one lies over both.
Colour dimmed(Colour below);
/// Lays the tint over a picture of that view.
void apply(const Tint& tint, const PlaneView& view, Image& image);

}  // namespace tilescope::viewer
