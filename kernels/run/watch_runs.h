#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "dump/watch.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

/// Runs the kernel on the request's engine and keeps statistics of what is selected. Errors: as run_kernel().
StatisticsRun keep_statistics(const RunRequest& request, const RunInputs& inputs);
StatisticsRun keep_statistics_on_cpu(const RunRequest& request, const RunInputs& inputs);
StatisticsRun keep_statistics_on_cuda(const RunRequest& request, const RunInputs& inputs);

/// What a watched request showed.
struct WatchResult {
    std::string device;
    WatchReport report;
    SuspectSelection suspects;
    std::size_t budget = 0;
    std::optional<CapturedRun> dump;  ///< of the suspects; nullopt where there are none
};

inline constexpr int watch_launches = 2;

/// Launches twice for statistics, and once more for the tiles of the query blocks that look wrong, within
/// `budget` bytes. Errors: those of run_kernel() and watch().
WatchResult run_watched(const RunRequest& request, std::size_t budget);

// What tile-run prints. `path` is the file that the dump was written to; empty where none was.
std::string to_text(const RunRequest& request, const WatchResult& result, const std::string& path);
std::string to_json(const RunRequest& request, const WatchResult& result, const std::string& path);

}  // namespace tilescope
