#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "oracle/judge.h"
#include "oracle/judge/judge_tiles.h"
#include "oracle/ranks/arrivals.h"
#include "oracle/ranks/coverage.h"
#include "oracle/ranks/merges.h"
#include "oracle/ranks/run_of_ranks.h"
#include "oracle/ranks/whole_view.h"

namespace tilescope {

/// What the other parts of the run say of a part.
struct HeldAgainst {
    std::vector<Arrival> arrivals;  ///< q, k and v of a step that does not own them
    MergeReport received;           ///< partial outputs of another rank
    MergeReport merged;             ///< of a step; of outputs, what is stored at the end
};

/// A rank's outputs, judged from all keys, as their owners have them.
struct FromAllKeys {
    std::unique_ptr<WholeView> view;
    TilesFound tiles;
    StageTally o;  ///< with what the merges round
    StageTally lse;

    /// Whether all of the inputs that it takes were recorded.
    bool has_inputs() const { return view->has_input(Input::q) && view->has_input(Input::k); }
    bool diverges() const { return o.diverges() || lse.diverges(); }
};

/// What takes the time: the tiles and rows of all parts, by the threads of all processes that judge the run.
struct PartsFound {
    std::vector<std::optional<CoverageFault>> coverage;  ///< of each rank
    std::vector<HeldAgainst> beside;                     ///< of each part
    std::vector<TilesFound> tiles;                       ///< of each part that is a step
    std::vector<FromAllKeys> from_all_keys;              ///< of each part that has outputs of a rank
};

/// Nothing but the coverage. Collective.
PartsFound nothing_of_parts(const RunOfRanks& run, const JudgeOptions& options, WorkSharing& sharing);

/// Adds those of the run's parts that have these numbers. Collective. Errors: Error for a damaged file, but where it is tiles
/// that cannot be read: those have a failure.
void judge_parts(const RunOfRanks& run, std::span<const std::size_t> parts, const JudgeOptions& options,
                 WorkSharing& sharing, PartsFound& found);

}  // namespace tilescope
