#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/heatmap/figure.h"
#include "oracle/judge.h"

namespace tilescope {

/// What write_heatmaps() writes there, in the order in which it is looked at.
std::array<std::string, 4> heatmap_files(const std::string& directory);

/// Renders the plane of the report's first divergence to `directory`, which is created: dumped, expected, difference and
/// over_budget. Returns a line that names them, or says that no stage diverges; then nothing is written. Errors: Error when
/// they cannot be written.
std::string write_heatmaps(const std::string& directory, const Report& report, const Recording& recording,
                           const Recording* other, const JudgeOptions& options);

/// Pixels of a heatmap's longer side.
struct FigureSize {
    int small = 1024;  ///< of a plane with fewer elements
    int most = 2048;
};

struct HeatmapFigure {
    Quantity quantity;
    std::string caption;  ///< the figure's title, unit and what the ring is around
    DrawnFigure drawn;
};

/// Of the report's first divergence; it has one.
Plane guilty_plane(const Report& report);

/// Draws quantities of a plane, each with a ring around the worst element. Errors: as judge() for what cannot be read.
std::vector<HeatmapFigure> draw_heatmaps(const Report& report, const Recording& recording,
                                         const Recording* other, JudgeOptions options, const Plane& plane,
                                         std::span<const Quantity> quantities, const FigureSize& size);

}  // namespace tilescope
