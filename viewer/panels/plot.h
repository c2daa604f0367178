#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "viewer/panels/panel.h"

namespace tilescope::viewer {

/// A value for each KV tile; NaN where there is none. With `high` a band between both.
struct Curve {
    std::vector<double> low;
    std::vector<double> high;
    ImU32 colour = colours::accent;
    float width = 1.5F;
    std::string name = {};  ///< in the plot's corner
};

struct Plot {
    std::string label;
    std::vector<Curve> curves;
    std::vector<std::uint8_t> marks;  ///< a mark at the top where not 0: what has no finite value
    bool logarithmic = false;
    double reference = 0;  ///< a line at this value, where not 0
    std::string reference_name = {};
    std::int64_t cursor = -1;
    std::int64_t knee = -1;  ///< a line at this tile, where not negative
};

/// What draw_plot() takes beside the plot's height: its label, and the numbers of the KV tiles.
float plot_margin();
/// Draws the plot over the panel's width. Returns the index that was clicked, or -1.
std::int64_t draw_plot(App& app, const Plot& plot, float height);

struct Bars {
    std::string label;
    std::span<const std::int64_t> counts;
    std::span<const std::int64_t> behind;  ///< drawn as an outline; may be empty
    std::string left;                      ///< names of the ends
    std::string right;
    double mark = -1;  ///< a line at this bar, where not negative
    std::string mark_name;
};
/// Bars whose heights grow with the logarithm of the count, so that one element among millions is seen.
void draw_bars(App& app, const Bars& bars, float height);

}  // namespace tilescope::viewer
