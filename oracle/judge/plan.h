#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dump/recording.h"
#include "oracle/formula/budget.h"
#include "oracle/judge/report.h"
#include "oracle/judge/tally.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

/// What the judging of every query block and KV tile of a recording shares.
struct Plan {
    const Recording& recording;
    const Recording* other = nullptr;  ///< null: the oracle is what the recording is compared with
    const CompareOptions& compare;
    HeadInputCache& inputs;
    const TileObserver& observe;
    const InheritedObserver& observe_inherited;
    RoundingModel rounding;
    std::optional<Stage> until;  ///< that of JudgeOptions
    std::array<bool, stage_count> captured{};
    Stage last = Stage::q;  ///< last stage of the forward pass that has to be computed
    /// Some captured stage is computed from another captured one, from which it can inherit an error.
    bool end_to_end = false;
    bool drift = false;  ///< m, l or acc was captured

    const Problem& problem() const { return recording.problem(); }
    bool has(Stage stage) const { return captured[static_cast<std::size_t>(stage)]; }
};

/// What was found in some tiles: each thread counts its own, and the report gets the sum.
struct JudgedPart {
    std::array<StageTally, stage_count> stages;
    std::vector<Drift> drift;

    StageTally& tally(Stage stage) { return stages[static_cast<std::size_t>(stage)]; }
};

/// What is counted. A query block (or a KV tile of dk and dv) is judged first for divergences, each stage
/// from the dumped stages before it. Only where something diverges is it judged again, to count what
/// inherited that: elements that agree with the stages before them, and not with what the inputs give.
enum class Pass : std::uint8_t { divergences, inherited };

}  // namespace tilescope
