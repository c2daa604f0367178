#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/run/again.h"

namespace tilescope {

/// How one stage of the later runs compares with that of the first.
struct RepeatedStage {
    Stage stage = Stage::q;
    std::int64_t compared = 0;               ///< elements of one run
    int changed_runs = 0;                    ///< runs that differ from the first
    std::int64_t most_changed = 0;           ///< elements that differ in the worst of them
    int first_run = 0;                       ///< the run that `first` is of, counted from 1
    std::optional<ElementDifference> first;  ///< of that run; no run has an earlier one
};

/// Runs of the same kernel on the same inputs.
struct RepeatReport {
    std::string device;
    int runs = 0;
    int changed_runs = 0;
    std::vector<RepeatedStage> stages;  ///< in order of computation
};

/// The seed of the times that warps wait in the hooks of a run, numbered from 1, so that barriers which are missing show. Of
/// every other run none: there a race shows that the waiting would hide.
constexpr std::uint32_t jitter_of_run(int run) {
    return run % 2 == 0 ? std::uint32_t(run) : 0;
}

/// Counts how a run, numbered from 1, differs from the first one.
void add_run(const std::vector<StageDifference>& stages, int run, RepeatReport& report);

/// Runs the request `runs` times, at least twice, and compares each with the first. Two runs that differ
/// race, or read what they have not written. Errors: those of run_to_compare.
RepeatReport repeat_runs(const RunRequest& request, int runs);

/// The first stage that changed; null when none did.
const RepeatedStage* first_changed(const RepeatReport& report);

}  // namespace tilescope
