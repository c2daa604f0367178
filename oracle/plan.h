#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dump/recording.h"
#include "oracle/budget.h"
#include "oracle/report.h"
#include "oracle/tally.h"
#include "oracle/tiles.h"

namespace tilescope {

/// What is the same for everything that is judged.
struct Plan {
    const Recording& recording;
    const Recording* other = nullptr;  ///< null: the oracle is what the recording is compared with
    const CompareOptions& compare;
    HeadInputCache& inputs;
    const TileObserver& observe;
    const InheritedObserver& observe_inherited;
    RoundingModel rounding;
    std::array<bool, stage_count> captured{};
    Stage last = Stage::q;    ///< last stage of the forward pass that has to be computed
    bool end_to_end = false;  ///< a captured stage is computed from a captured one: errors can be inherited
    bool drift = false;       ///< m, l or acc was captured

    const Problem& problem() const { return recording.problem(); }
    bool has(Stage stage) const { return captured[static_cast<std::size_t>(stage)]; }
};

/// What the judging of some tiles found.
struct Partial {
    std::array<StageTally, stage_count> stages;
    std::vector<Drift> drift;

    StageTally& tally(Stage stage) { return stages[static_cast<std::size_t>(stage)]; }
};

/// What a judge counts. Only what diverges leaves errors to inherit, so the second is for work that diverges.
enum class Pass : std::uint8_t { divergences, inherited };

}  // namespace tilescope
