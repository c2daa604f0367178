#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "dump/schema.h"
#include "oracle/estimate.h"
#include "oracle/reference.h"

namespace tilescope {

/// What a tile's stages hold in the dump, without padding; nullopt where a stage was not captured.
using DumpedTile = std::array<std::optional<MatrixF>, stage_count>;

/// What the stages of one tile should hold, in natural units; p is as dumped (its cast is in the error).
struct TileEstimates {
    Estimate s;
    Estimate m;
    Estimate p;
    Estimate l;
    Estimate acc;
};

/// The staged operands of a tile.
struct TileOperands {
    const Operand& q;
    const Operand& k;
    const Matrix& v;
};

/// Factor from natural units to what the dump holds: 1 except for s, m and lse in other units.
double dump_factor(const Problem& problem, const Units& units, Stage stage);

/// The dumped values, with error 0, where they were written, and the estimate elsewhere. `factor` as in
/// dump_factor().
Estimate settle(const Estimate& estimate, const MatrixF& dumped, double factor = 1);

/// Recomputes one query block, KV tile by KV tile, the way the kernel does. Given dumped tiles, each stage is
/// computed from the dumped stages before it (stage-local); given none, from the inputs alone (end to end).
class Replay {
 public:
    /// Stages after `last` are not computed.
    Replay(const Problem& problem, const Units& units, std::int64_t q_block, Stage last);

    /// What the tile should hold; moves the running state past the tile.
    TileEstimates step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped);

    /// From the state after the last tile.
    Estimate output() const;
    /// Natural units.
    Estimate log_sum_exp() const;

    const RunningState& state() const { return state_; }

 private:
    bool wants(Stage stage) const { return stage <= last_; }

    const Problem& problem_;
    const Units& units_;
    std::int64_t q_block_;
    Stage last_;
    RunningState state_;
};

}  // namespace tilescope
