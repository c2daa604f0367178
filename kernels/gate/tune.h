#pragma once

// Which configuration of a kernel is the fastest for a call, among those that are right.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "kernels/gate/profile.h"
#include "kernels/gate/statistics.h"

namespace tilescope {

struct TuneOptions {
    GatedCall call;  ///< its configuration is not looked at
    std::string select = "batch=0:head=0";
    int samples = 200;
    double most_seconds = 5;
    std::string folder;  ///< empty or not there yet; gets tune.json, and the samples of what is kept
};

/// A configuration that was tried.
struct Trial {
    std::string config;
    std::string judged;   ///< the last line of tile-diff; empty: it was not judged
    std::string refused;  ///< why it was not timed; empty: it was
    std::optional<Percentiles> microseconds;
    std::size_t samples = 0;
    std::string record;  ///< the command that records it again
    std::string file;    ///< its samples, in the folder; empty: not kept
};

struct Tuning {
    GatedCall call;
    std::vector<Trial> trials;      ///< those that were timed, the fastest first, then the others
    std::vector<std::string> kept;  ///< configurations, the fastest first
    std::string profile;            ///< of the fastest, or why there is none
};

/// Records every configuration of the kernel by tile-run, judges it by tile-diff, and times by tile-gate what matches; all three
/// lie beside this program. Errors: Error where the kernel has no configuration for the call, the folder is not empty, or no
/// configuration could be recorded or timed for a reason that has nothing to do with it.
Tuning tune_kernel(const TuneOptions& options);

std::string to_text(const Tuning& tuning);
std::string to_json(const Tuning& tuning);

}  // namespace tilescope
