#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "oracle/judge.h"
#include "oracle/judge/plan.h"
#include "oracle/judge/work_sharing.h"

namespace tilescope {

/// Counts what is done.
class Steps {
 public:
    /// `total`: of all processes, which come equally far.
    Steps(const JudgeOptions& options, std::int64_t total, const WorkSharing& sharing)
        : progress_(options.progress), total_(total), at_once_(sharing.processes()) {}
    void step() {
        if (progress_) progress_(std::min(done_ += at_once_, total_), total_);
    }

 private:
    const decltype(JudgeOptions::progress)& progress_;
    std::int64_t total_;
    std::int64_t at_once_;
    std::atomic<std::int64_t> done_ = 0;
};

/// A recording among those whose tiles are judged together.
struct TilesToJudge {
    const Plan& plan;
    const JudgeOptions& options;
};

/// How many pieces of work its tiles are.
std::int64_t tile_steps(const Plan& plan);

/// What the tiles of a recording came to.
struct TilesFound {
    JudgedPart part;
    Failure failure;
};

/// Judges the tiles of all recordings, by the threads of all processes: what each of them took adds up to the same whole in
/// any order. Collective. `threads` as in JudgeOptions.
std::vector<TilesFound> judge_tiles(std::span<const TilesToJudge> recordings, int threads,
                                    WorkSharing& sharing, Steps& steps);

/// The same of recordings, for JudgeOptions::tiles of a call of judge() for each. `options` has those of each recording, which
/// share the threads of the first. What cannot be judged has a failure, which judge() throws.
std::vector<TilesFound> judge_tiles(std::span<const Recording* const> recordings,
                                    std::span<const JudgeOptions> options, WorkSharing& sharing);

}  // namespace tilescope
