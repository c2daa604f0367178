#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/estimate.h"
#include "oracle/head_call.h"
#include "oracle/output.h"
#include "oracle/scores.h"

namespace tilescope {

/// What a tile's stages hold in the dump, without padding; nullopt where a stage was not captured.
using DumpedTile = std::array<std::optional<MatrixF>, stage_count>;

inline const std::optional<MatrixF>& of(const DumpedTile& dumped, Stage stage) {
    return dumped[static_cast<std::size_t>(stage)];
}

/// What the stages of one tile should hold, in natural units; p is as dumped (its cast is in the error).
struct TileEstimates {
    Estimate s;
    Estimate m;
    Estimate p;
    Estimate l;
    Estimate acc;
};

/// The operands of a tile.
struct TileOperands {
    const Operand& q;
    const Operand& k;
    const Operand& v;
};

/// The dumped values in natural units, with error 0, where they were written, and the estimate elsewhere.
Estimate settle(const Estimate& estimate, const MatrixF& dumped, const DumpFactor& factor = {});

/// In the dump's units. Error: converting rounds the oracle's own value, too.
Estimate in_dump_units(const Estimate& natural, const DumpFactor& factor);

/// Recomputes one query block, KV tile by KV tile, the way the kernel does.
class Replay {
 public:
    enum class Source {
        stages,  ///< each stage from the dumped stages before it: stage-local
        inputs   ///< from the inputs alone: end to end
    };

    /// Stages after `last` are not computed.
    Replay(const HeadCall& call, std::int64_t q_block, Stage last, Source source);

    /// What the tile should hold; moves the running state past the tile. Of `dumped`, a replay from the
    /// inputs takes m where it may be stale and is within its threshold, because every choice is right.
    TileEstimates step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped);

    /// From the state after the last tile, all splits together.
    Estimate output() const;
    /// Natural units.
    Estimate log_sum_exp() const;

    /// After the last tile, of its split.
    const RunningState& state() const { return state_; }

 private:
    bool wants(Stage stage) const { return stage <= last_; }
    void begin_split(std::int64_t kv_tile);
    /// The estimate itself, or in `room` what was dumped.
    const Estimate& settled(Stage stage, std::int64_t kv_tile, const Estimate& estimate,
                            const DumpedTile& dumped, Estimate& room) const;
    Estimate settled_max(std::int64_t kv_tile, const Estimate& estimate, const DumpedTile& dumped) const;
    void step_softmax(std::int64_t kv_tile, const Estimate& s, const Estimate& m, const Operand& v,
                      const DumpedTile& dumped, TileEstimates& tile);
    RunningState whole() const;

    const HeadCall& call_;
    std::int64_t q_block_;
    Stage last_;
    Source source_;
    std::int64_t split_ = 0;
    RunningState state_;
    std::vector<RunningState> finished_;  ///< of the splits before
};

}  // namespace tilescope
