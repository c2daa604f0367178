#pragma once

#include <array>
#include <string>
#include <vector>

#include "oracle/heatmap/colour.h"
#include "oracle/heatmap/quantity.h"

namespace tilescope::viewer {

/// How a quantity is coloured.
struct ScaleChoice {
    ScaleKind kind = ScaleKind::linear;
    ColourMap colours = ColourMap::sequential;
    double clip = 0;        ///< share of the values left out at either end, where the range is found
    bool automatic = true;  ///< the range follows what is shown
    double low = 0;         ///< of the fixed range
    double high = 1;
};

/// What lasts from one run to the next.
struct Settings {
    std::vector<std::string> recent;  ///< newest first; a pair is two lines in one entry
    int width = 1600;
    int height = 1000;
    bool tile_grid = true;
    bool mask_edges = true;
    bool warp_lines = false;
    bool history = true;   ///< along the bottom
    int warp_rows = 16;    ///< rows between lines of warps
    int lane_columns = 8;  ///< columns between lines of lanes
    std::array<ScaleChoice, quantity_count> scales;
};

/// Those of a first run.
Settings default_settings();

/// Under $XDG_CONFIG_HOME or ~/.config; empty where neither is known.
std::string settings_path();

/// What the file holds; what it does not hold, or holds wrongly, is as in default_settings().
Settings load_settings(const std::string& path);
/// Quietly does nothing where it cannot be written.
void save_settings(const std::string& path, const Settings& settings);

void remember_recent(Settings& settings, const std::string& entry);

}  // namespace tilescope::viewer
