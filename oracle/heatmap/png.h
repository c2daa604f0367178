#pragma once

#include <string>

#include "oracle/heatmap/heatmap_image.h"

namespace tilescope {

/// Writes the image as an RGBA PNG. Errors: Error when it cannot be written; then nothing is left behind.
void write_png(const std::string& path, const Image& image);

/// The same file in memory.
std::string to_png(const Image& image);

}  // namespace tilescope
