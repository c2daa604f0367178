#pragma once

#include <array>
#include <functional>

#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/scores.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

/// Nothing is known of it: so many rows of one column.
Estimate unknown_rows(std::int64_t rows);

/// What the rows of a query block bring into the backward pass.
struct GradientRows {
    Operand q;
    Matrix dout;
    Estimate lse;    ///< R x 1, natural units
    Estimate delta;  ///< R x 1
};

/// What the dump should hold of a query block, and what the formulas take of it.
struct LoadedGradientRows {
    StagedOperand q;
    Estimate dout;
    Estimate delta;            ///< NaN where the recording has no o
    GradientRows from_inputs;  ///< end to end; delta as dumped where the recording has no o
    GradientRows from_stages;  ///< with what was dumped of q, dout and delta in its place
};
/// `other`: the recording that this one is compared with; null where there is none.
LoadedGradientRows load_gradient_rows(const Recording& recording, const HeadCall& call, const TileId& tile,
                                      const Recording* other = nullptr);

/// The stages of one tile.
inline constexpr std::array gradient_tile_stages = {Stage::k, Stage::v,  Stage::s,
                                                    Stage::p, Stage::dp, Stage::ds};

/// K and V of one tile.
struct LoadedGradientKeys {
    StagedOperand k;
    StagedOperand v;
    Operand k_from_stages;
    Operand v_from_stages;
};
LoadedGradientKeys load_gradient_keys(const HeadCall& call, const HeadInputs& inputs, const TileId& tile,
                                      const DumpedTile& dumped);

/// What the formulas of a stage of one tile take, in natural units. Null: an input of a later stage.
struct GradientInputs {
    const HeadCall& call;
    std::int64_t first_row;
    std::int64_t first_key;
    const GradientRows& rows;
    const Operand& k;
    const Operand& v;
    const Estimate* scores = nullptr;  ///< as the softmax sees them; -inf where hidden
    const Estimate* p = nullptr;       ///< that ds is computed from
    const Estimate* dp = nullptr;      ///< as dumped, or its estimate
    const Estimate* cap = nullptr;     ///< derivative of the soft cap; null where there is none
};

/// s, p, dp or ds of a healthy kernel, p and ds with their casts.
Estimate expected_of(Stage stage, const GradientInputs& inputs);

/// The scores that P is computed from: those of the dump, finished. lse is that of a row which sees a score; one that
/// sees none has no gradient.
Estimate gradient_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                         Estimate dumped);

/// What one tile of the backward pass should hold, in natural units, p and ds as dumped; and what that is
/// computed from.
struct GradientTile {
    Estimate s;
    Estimate p;
    Estimate dp;
    Estimate ds;
    Estimate dumped_s;  ///< s as dumped, or its estimate
    Estimate scores;    ///< as the softmax sees them; -inf where hidden
    Estimate p_in_ds;   ///< what ds is computed from
    Estimate dp_in_ds;
    Estimate cap;         ///< derivative of the soft cap; empty where there is none
    Estimate p_operand;   ///< what multiplies dout
    Estimate ds_operand;  ///< what multiplies q and k
    /// Both before their casts; empty where the dump has them after.
    Estimate uncast_p;
    Estimate uncast_ds;
};

/// In place of expected_of(), or to look on: the tile as far as it is computed holds what the inputs do not.
using GradientFormula = std::function<Estimate(Stage, const GradientInputs&, const GradientTile&)>;

/// Recomputes one tile from the dumped stages before each (`stages`), or from the rows and operands alone.
GradientTile replay_gradient_tile(const HeadCall& call, const TileId& tile, const GradientRows& rows,
                                  const Operand& k, const Operand& v, const DumpedTile& dumped,
                                  Replay::Source source, const GradientFormula& formula = {});

}  // namespace tilescope
