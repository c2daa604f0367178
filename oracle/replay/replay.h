#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/output.h"
#include "oracle/formula/scores.h"

namespace tilescope {

/// What a tile's stages hold in the dump, without padding; nullopt where a stage was not captured.
using DumpedTile = std::array<std::optional<MatrixF>, stage_count>;

inline const std::optional<MatrixF>& of(const DumpedTile& dumped, Stage stage) {
    return dumped[static_cast<std::size_t>(stage)];
}

/// The stages of a KV tile of the forward pass, in the order of the kernel.
inline constexpr std::array forward_tile_stages = {Stage::k, Stage::v, Stage::s,  Stage::m,
                                                   Stage::p, Stage::l, Stage::acc};

/// What the stages of one tile should hold, in natural units; p is as dumped (its cast is in the error), relative to
/// what it is declared to be, and acc over l where it is declared so.
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
    ScoreOperands score_operands = {};
    const Packed* v_packed = nullptr;  ///< its columns, where somebody has packed them
    const Estimate* scores = nullptr;  ///< what Stage::s comes out as, where somebody has computed it
};

/// What the formulas of a stage of one KV tile take, in natural units. Null: an input of a later stage.
struct TileInputs {
    const HeadCall& call;
    std::int64_t kv_tile;
    std::int64_t first_row;
    std::int64_t first_key;
    TileOperands operands;
    bool begins = false;                   ///< no KV tile of its split came before
    bool dumps_p = false;                  ///< the dump holds p of this tile
    const RunningState* before = nullptr;  ///< after the tile before, or where the split begins
    const Estimate* dumped_s = nullptr;    ///< as dumped, or its estimate
    const Estimate* s = nullptr;           ///< as the softmax sees it
    const Estimate* m = nullptr;           ///< as dumped, or its estimate
    const Estimate* p_max = nullptr;       ///< that P as dumped is relative to: m, or the tile's own
    const Estimate* p_factor = nullptr;    ///< that its rows are multiplied with before their cast; null: 1
    const Estimate* p = nullptr;           ///< before its cast
    const Estimate* p_operand = nullptr;   ///< what multiplies V
    const Estimate* factor = nullptr;      ///< that rescales l and acc
    const Estimate* l_before = nullptr;    ///< of whole rows, where acc is kept over l
    const Estimate* l = nullptr;           ///< the same after the tile
    /// [row]: whether its split has seen a score by now. Null, or empty: hidden scores hold -inf.
    const std::vector<bool>* seen = nullptr;

    /// What l adds up.
    const Estimate& p_in_l() const { return call.units.l_sums_cast_p ? *p_operand : *p; }
};

/// s, m, l or acc of a healthy kernel, and p from its inputs and with its cast.
Estimate expected_of(Stage stage, const TileInputs& inputs);

/// What one element of it may be off by, part by part; row and column are those of the tile.
BudgetTerms terms_of(Stage stage, const TileInputs& inputs, Eigen::Index row, Eigen::Index col);

/// What later stages are computed from: the dumped value in natural units, with error 0, where the kernel
/// wrote one, and the estimate elsewhere.
Estimate settle(const Estimate& estimate, const MatrixF& dumped, const DumpFactor& factor = {});

/// In the dump's units. Error: converting rounds the oracle's own value, too.
Estimate in_dump_units(const Estimate& natural, const DumpFactor& factor);

/// Recomputes one query block, KV tile by KV tile, the way the kernel does: the only code that goes from tile
/// to tile of a forward pass.
class Replay {
 public:
    enum class Source {
        stages,  ///< each stage from the dumped stages before it: stage-local
        inputs   ///< from the inputs alone: end to end
    };
    /// In place of expected_of(), or to look on.
    using Formula = std::function<Estimate(Stage, const TileInputs&)>;

    /// Stages after `last` are not computed.
    Replay(const HeadCall& call, std::int64_t q_block, Stage last, Source source, Formula formula = {});

    /// What the tile should hold; moves the running state past the tile. A replay from the inputs uses one
    /// thing of `dumped`: an m that is declared stale and within its threshold, since the kernel may choose
    /// it freely.
    TileEstimates step(std::int64_t kv_tile, const TileOperands& operands, const DumpedTile& dumped);

    /// From the state after the last tile, all splits together.
    Estimate output() const;
    /// Natural units.
    Estimate log_sum_exp() const;

    /// After the last tile, of its split.
    const RunningState& state() const { return splits_.back().state; }
    /// After the last tile of each split that has begun, in the order of the kernel. The first split counts
    /// always: with no tile it holds the sink. Rows that have seen numbers in place of scores alone hold what
    /// they began with.
    std::vector<RunningState> begun_splits() const;
    /// Of every split by its number, whether it has begun or not.
    std::vector<RunningState> all_splits() const;

 private:
    struct Split {
        std::int64_t number = 0;
        bool has_begun = false;
        RunningState state;
        std::vector<bool> seen;  ///< as TileInputs::seen
    };

    bool wants(Stage stage) const { return stage <= last_; }
    RunningState initial(std::int64_t split) const;
    bool begin_split(std::int64_t kv_tile);
    void see_scores(const TileInputs& inputs);
    void begin_anew(Split& split, const std::function<bool(std::size_t row)>& which) const;
    RunningState seen_state(Split split) const;
    Estimate compute(Stage stage, const TileInputs& inputs) const;
    const Estimate& settled(Stage stage, const TileInputs& inputs, const Estimate& estimate,
                            const DumpedTile& dumped, Estimate& room) const;
    Estimate settled_max(const TileInputs& inputs, const Estimate& estimate, const DumpedTile& dumped) const;
    void step_softmax(TileInputs& inputs, const DumpedTile& dumped, TileEstimates& tile);
    void step_sums(TileInputs& inputs, const DumpedTile& dumped, TileEstimates& tile);

    const HeadCall& call_;
    std::int64_t q_block_;
    Stage last_;
    Source source_;
    Formula formula_;
    std::vector<Split> splits_;  ///< the last one is that of the current tile
};

}  // namespace tilescope
