#include "oracle/explain/gradients.h"

#include <limits>
#include <utility>

#include "dump/schema/semantics.h"
#include "oracle/formula/gradient_sum.h"
#include "oracle/formula/gradients.h"
#include "oracle/formula/scores.h"
#include "oracle/formula/softmax.h"
#include "oracle/replay/gradient_replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// One tile with everything that it is computed from, stage-local.
struct TileOfGradients {
    LoadedGradientRows rows;
    LoadedGradientKeys keys;
    DumpedTile dumped;
    GradientTile tile;
};

TileOfGradients load_tile_of_gradients(const Recording& recording, const HeadCall& call, const TileId& id) {
    TileOfGradients loaded;
    for (const Stage stage : gradient_tile_stages) {
        if (recording.has_stage(stage))
            loaded.dumped[static_cast<std::size_t>(stage)] = load_tile(recording, call.problem, stage, id);
    }
    HeadInputCache cache(recording);
    const auto inputs = cache.get(id.batch, call.problem.head_kv(id.head));
    loaded.rows = load_gradient_rows(recording, call, id);
    loaded.keys = load_gradient_keys(call, *inputs, id, loaded.dumped);
    loaded.tile = replay_gradient_tile(call, id, loaded.rows.from_stages, loaded.keys.k_from_stages,
                                       loaded.keys.v_from_stages, loaded.dumped, Replay::Source::stages);
    return loaded;
}

ExplainedElement element_of(const Estimate& estimate, Eigen::Index row, Eigen::Index col, BudgetTerms terms) {
    return {estimate.value(row, col), estimate.error(row, col), std::move(terms)};
}

BudgetTerms score_or_probability_terms(const HeadCall& call, const ElementPlace& place,
                                       const TileOfGradients& loaded, Eigen::Index row, Eigen::Index col) {
    const std::int64_t first_row = place.tile.q_block * call.problem.block_m;
    const std::int64_t first_key = place.tile.kv_tile * call.problem.block_n;
    const GradientRows& rows = loaded.rows.from_stages;
    const GradientTile& tile = loaded.tile;
    if (place.stage == Stage::s)
        return dumped_score_terms(call, first_row, first_key, rows.q, loaded.keys.k_from_stages, row, col);
    if (tile.scores.value(row, col) == -std::numeric_limits<double>::infinity()) return {};
    return probability_terms(call, tile.scores, rows.lse, row, col,
                             finishing_terms(call, first_row, first_key, tile.dumped_s, row, col));
}

/// What the tiles of a gradient add up to, at one element.
class ElementOfGradient {
 public:
    ElementOfGradient(Stage stage, Eigen::Index row, Eigen::Index col)
        : stage_(stage), row_(row), col_(col), sum_(stage, 1, 1) {}

    void add(const Recording& recording, const HeadCall& call, const TileId& id) {
        const TileOfGradients loaded = load_tile_of_gradients(recording, call, id);
        const bool is_dq = stage_ == Stage::dq;
        const bool is_dv = stage_ == Stage::dv;
        const Estimate& weights = is_dv ? loaded.tile.p_operand : loaded.tile.ds_operand;
        const auto line = [&](const Matrix& m) -> Matrix {
            if (is_dq) return m.row(row_);
            return m.col(row_).transpose();
        };
        const GradientRows& rows = loaded.rows.from_stages;
        Operand b = is_dv   ? Operand{rows.dout}
                    : is_dq ? gradient_operand(call, Stage::k, loaded.keys.k_from_stages)
                            : gradient_operand(call, Stage::q, rows.q);
        b.value = b.value.col(col_).eval();
        const Estimate a{line(weights.value), line(weights.error)};
        sum_.add(call, a, line(loaded.tile.scores.value), b);
    }

    ExplainedElement explain(const HeadCall& call) const {
        return element_of(sum_.gradient(call), 0, 0, sum_.terms(call));
    }

 private:
    Stage stage_;
    Eigen::Index row_;
    Eigen::Index col_;
    GradientSum sum_;
};

ExplainedElement explain_sum(const Recording& recording, const HeadCall& call, const ElementPlace& place,
                             Eigen::Index row, Eigen::Index col) {
    const Problem& problem = call.problem;
    ElementOfGradient element(place.stage, row, col);
    if (place.stage == Stage::dq) {
        for (std::int64_t kv_tile = 0; kv_tile < problem.kv_tiles(); ++kv_tile) {
            const TileId id{place.tile.batch, place.tile.head, place.tile.q_block, kv_tile};
            if (takes_part(recording, problem, gradient_tile_stages, id)) element.add(recording, call, id);
        }
        return element.explain(call);
    }
    const HeadRange heads = query_heads(problem, place.stage, place.tile.head);
    for (std::int64_t i = 0; i < heads.size(); ++i) {
        const std::int64_t head = heads.at(i);
        const HeadCall of_head = make_head_call(recording, call.rounding, place.tile.batch, head);
        for (std::int64_t q_block = 0; q_block < problem.q_blocks(); ++q_block) {
            const TileId id{place.tile.batch, head, q_block, place.tile.kv_tile};
            if (takes_part(recording, problem, gradient_tile_stages, id)) element.add(recording, of_head, id);
        }
    }
    return element.explain(call);
}

}  // namespace

ExplainedElement explain_gradient(const Recording& recording, const HeadCall& call,
                                  const ElementPlace& place) {
    const TileContext context = tile_context(call.problem, place.stage, place.tile);
    const Eigen::Index row = place.row - context.first_row;
    const Eigen::Index col = place.col - context.first_col;
    if (is_output(place.stage)) return explain_sum(recording, call, place, row, col);
    const auto operand = [&](const Estimate& expected) {
        return element_of(expected, row, col,
                          operand_terms(call, place.stage, context.first_row, expected, row, col));
    };
    // These need no keys, of which there may be none.
    const LoadedGradientRows rows = load_gradient_rows(recording, call, place.tile);
    if (place.stage == Stage::q) return operand(rows.q.expected);
    if (place.stage == Stage::dout) return operand(rows.dout);
    if (place.stage == Stage::delta) {
        if (!recording.has_input(Input::o)) return element_of(rows.delta, row, col, {});
        const Matrix& dout = rows.from_stages.dout;
        const Matrix o = load_input(recording, Input::o, place.tile.batch, place.tile.head, context.first_row,
                                    dout.rows());
        return element_of(rows.delta, row, col, delta_terms(call, dout, o, row));
    }
    const TileOfGradients loaded = load_tile_of_gradients(recording, call, place.tile);
    const GradientTile& tile = loaded.tile;
    switch (place.stage) {
        case Stage::k:
            return operand(loaded.keys.k.expected);
        case Stage::v:
            return operand(loaded.keys.v.expected);
        case Stage::dp:
            return element_of(tile.dp, row, col,
                              dp_terms(call, rows.from_stages.dout, loaded.keys.v_from_stages, row, col));
        case Stage::ds:
            return element_of(
                tile.ds, row, col,
                ds_terms(call, tile.p_in_ds, tile.dp_in_ds, rows.from_stages.delta,
                         call.capped() && call.units.ds_capped ? &tile.cap : nullptr, row, col));
        default:
            return element_of(place.stage == Stage::s ? tile.s : tile.p, row, col,
                              score_or_probability_terms(call, place, loaded, row, col));
    }
}

}  // namespace tilescope
