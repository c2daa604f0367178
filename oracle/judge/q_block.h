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

/// K and V of the KV tile at hand, as all query blocks of a head share them.
class KvAtHand {
 public:
    /// `call`: of the head, the same one in all calls, as `inputs`.
    void move_to(std::int64_t kv_tile, const Plan& plan, const HeadCall& call, const HeadInputs& inputs);

    const StagedOperand& k() const { return k_; }
    const StagedOperand& v() const { return v_; }  ///< empty where no stage needs it
    const Packed& k_packed();
    const Packed& v_packed();

 private:
    std::int64_t kv_tile_ = -1;
    StagedOperand k_;
    StagedOperand v_;
    Packed k_packed_;
    Packed v_packed_;
    bool is_k_packed_ = false;
    bool is_v_packed_ = false;
};

/// Judges every captured tile of one query block of a forward pass and adds what it finds to a JudgedPart.
class QBlockJudge {
 public:
    /// `kv` is that of all query blocks of the head that are judged together.
    QBlockJudge(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial, KvAtHand& kv);

    /// In this order: the query block, its KV tiles, each by its number in the kernel's order, its outputs.
    void begin();
    void judge_kv_tile_in_order(std::int64_t i);
    void end();

    std::int64_t kv_tiles() const { return problem_.kv_tiles(); }
    /// Whether what is asked for has been seen.
    bool is_ended() const { return judge_.is_ended(); }

 private:
    TileId tile_in_order(std::int64_t i) const;
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
    RowNorms q_norms_;         ///< of q_staged_
    std::int64_t needed_ = 0;  ///< KV tiles that running statistics or outputs are computed from
    KvAtHand& kv_;
    Spreads spreads_;
    Replay local_;                       ///< from the dumped stages
    Replay exact_;                       ///< from the inputs
    std::optional<Replay> exact_other_;  ///< from the inputs, in the units of the other recording
};

}  // namespace tilescope
