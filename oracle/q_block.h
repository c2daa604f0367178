#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "oracle/head_call.h"
#include "oracle/replay.h"
#include "oracle/report.h"
#include "oracle/tally.h"
#include "oracle/tiles.h"

namespace tilescope {

/// What is the same for every query block that is judged.
struct Plan {
    const Recording& recording;
    const Recording* other = nullptr;  ///< null: the oracle is what the recording is compared with
    const CompareOptions& compare;
    HeadInputCache& inputs;
    const TileObserver& observe;
    RoundingModel rounding;
    std::array<bool, stage_count> captured{};
    Stage last = Stage::q;    ///< last stage that has to be computed
    bool end_to_end = false;  ///< a captured stage is computed from a captured one: errors can be inherited
    bool drift = false;       ///< m, l or acc was captured

    const Problem& problem() const { return recording.problem(); }
    bool has(Stage stage) const { return captured[static_cast<std::size_t>(stage)]; }
};

/// What the judging of some query blocks found.
struct Partial {
    std::array<StageTally, stage_count> stages;
    std::vector<Drift> drift;

    StageTally& tally(Stage stage) { return stages[static_cast<std::size_t>(stage)]; }
};

/// Judges every captured tile of one query block and adds what it finds to a Partial.
class QBlockJudge {
 public:
    /// What a judge counts. Only what diverges leaves errors to inherit, so the second is for blocks that
    /// diverge.
    enum class Pass { divergences, inherited };

    QBlockJudge(const Plan& plan, std::int64_t batch, std::int64_t head, std::int64_t q_block, Pass pass,
                Partial& partial);

    void run();

 private:
    TileId tile(std::int64_t kv_tile) const { return {batch_, head_, q_block_, kv_tile}; }
    bool observes() const { return plan_.observe && pass_ == Pass::divergences; }
    bool nothing_at(std::int64_t kv_tile) const;
    bool must_hold(const Recording& recording, Stage stage, const TileId& id) const;
    DumpedTile load(const Recording& recording, std::int64_t kv_tile) const;
    void judge_q();
    void judge_kv_tile(std::int64_t kv_tile);
    void judge_outputs();
    void compare(Stage stage, const TileId& id, const std::optional<MatrixF>& got, const Estimate& expected,
                 const Estimate* end_to_end);
    void compare_pair(Stage stage, const TileId& id, const std::optional<MatrixF>& got, const Estimate& mine,
                      const Estimate& theirs);
    DumpFactor factor_of(const HeadCall& call, Stage stage, const TileId& id) const;
    void count_missing(const TileContext& context);
    void add_drift(std::int64_t kv_tile, const DumpedTile& dumped);

    const Plan& plan_;
    Pass pass_;
    HeadCall call_;
    HeadCall exact_call_;  ///< without bounds where only the drift is wanted
    std::optional<HeadCall> other_call_;
    const Problem& problem_;  ///< with the batch entry's own lengths
    std::int64_t batch_;
    std::int64_t head_;
    std::int64_t q_block_;
    Partial& partial_;
    std::shared_ptr<const HeadInputs> inputs_;
    StagedOperand q_;
    Operand q_staged_;
    Replay local_;                       ///< from the dumped stages
    Replay exact_;                       ///< from the inputs
    std::optional<Replay> exact_other_;  ///< from the inputs, in the units of the other recording
};

}  // namespace tilescope
