#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "oracle/judge/plan.h"
#include "oracle/judge/spread.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

/// Judges every captured tile of one query block of a forward pass and adds what it finds to a JudgedPart.
class QBlockJudge {
 public:
    QBlockJudge(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial);

    void run();

 private:
    TileId tile(std::int64_t kv_tile) const { return {id_.batch, id_.head, id_.q_block, kv_tile}; }
    void judge_q();
    void judge_kv_tile(std::int64_t kv_tile);
    void judge_outputs();
    void add_drift(std::int64_t kv_tile, const DumpedTile& dumped);

    const Plan& plan_;
    TileId id_;
    TileJudge judge_;
    const HeadCall& call_;
    const Problem& problem_;  ///< with the batch entry's own lengths
    HeadCall exact_call_;     ///< without bounds where only the drift is wanted
    std::shared_ptr<const HeadInputs> inputs_;
    StagedOperand q_;
    Operand q_staged_;
    RowNorms q_norms_;  ///< of q_staged_
    Packed k_packed_;   ///< of the KV tile at hand
    Packed v_packed_;
    Spreads spreads_;
    Replay local_;                       ///< from the dumped stages
    Replay exact_;                       ///< from the inputs
    std::optional<Replay> exact_other_;  ///< from the inputs, in the units of the other recording
};

}  // namespace tilescope
