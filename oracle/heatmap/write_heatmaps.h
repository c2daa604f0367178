#pragma once

#include <array>
#include <string>

#include "dump/recording.h"
#include "oracle/judge.h"

namespace tilescope {

/// What write_heatmaps() writes there.
std::array<std::string, 4> heatmap_files(const std::string& directory);

/// Renders the plane of the report's first divergence to `directory`, which is created: dumped.png,
/// expected.png, difference.png and over_budget.png. Returns a line that names them, or says that no stage
/// diverges; then nothing is written. Errors: Error when they cannot be written.
std::string write_heatmaps(const std::string& directory, const Report& report, const Recording& recording,
                           const Recording* other, JudgeOptions options);

}  // namespace tilescope
