#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/heatmap/canvas.h"
#include "oracle/heatmap/detail.h"
#include "oracle/heatmap/heatmap_image.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// A heatmap with what it takes to read it without the tool: title, axes, colours with their numbers, the marks that
/// occur, and a ring around the worst element.
struct Figure {
    Plane plane;
    PlaneShape shape;
    Quantity quantity = Quantity::dumped;
    PlaneView view;  ///< whole elements
    ImageStyle style;
    std::vector<std::string> title;  ///< lines, of which the first says what is shown
    std::string axes;                ///< "q rows down, features across"
    std::string unit;                ///< what the numbers of the colours are
    std::optional<Rect> ringed;      ///< elements of the plane
    std::string ring_says;
    int width = 0;  ///< pixels of the heatmap itself
    int height = 0;
    /// How often a kind occurs, for planes of which a pyramid keeps no single elements; 0 where that was not counted.
    std::array<std::int64_t, kind_count> counts{};
};

/// "rows 0-31, columns 16-47" behind a comma; "" of the whole.
std::string part_text(const Figure& figure);
/// What the numbers of its colours are.
std::string unit_text(std::string_view stage, const Figure& figure, bool of_pair);
/// Title, axes and unit of the plane, or of the part in view; with its verdict where there is a report.
void describe(const Recording& recording, const Recording* other, const Report* report, Figure& figure);

/// What the ring is around, and in words what that holds, "" where it is not known. A stage in which nothing diverges has no
/// worst element, but one that is closest to its budget.
void ring_around(const Rect& cell, const Report* report, const std::string& holds, Figure& figure);

/// Where the heatmap lies in the image.
struct DrawnFigure {
    Image image;
    PixelBox heatmap;
};
DrawnFigure draw_figure(const Figure& figure, const Pyramid& pyramid, const DetailTiles& details);

/// Numbers along an axis: multiples of a tile's size or, where that leaves room, of its half, quarter and so on. `pixels`: of
/// an element; `room`: at least so many from one number to the next.
std::int64_t tick_step(std::int64_t tile, double pixels, double room);

/// Numbers along the colours, in ascending order: round ones inside, and both ends where there are fewer than two.
std::vector<double> scale_ticks(const Scale& scale, int most);

}  // namespace tilescope
