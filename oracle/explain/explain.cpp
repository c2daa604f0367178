#include "oracle/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "dump/schema/error.h"
#include "dump/schema/semantics.h"
#include "oracle/explain/gradients.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/output.h"
#include "oracle/judge/report.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// What the kernel held of an operand, and what it should have held.
struct LoadedOperand {
    StagedOperand staged;
    Operand used;
};

/// A KV tile as the dump has it.
struct LoadedTile {
    LoadedOperand k;
    LoadedOperand v;
    DumpedTile dumped;
};

/// The estimate of the element's tile, in natural units, and the terms of the element's error.
struct Explained {
    Estimate estimate;
    BudgetTerms terms;
};

/// Replays the query block of one element, stage-local, up to that element.
class ElementReplay {
 public:
    ElementReplay(const Recording& recording, const HeadCall& call, const ElementPlace& place)
        : recording_(recording), call_(call), place_(place), problem_(call.problem) {}

    Explained explain() const {
        switch (place_.stage) {
            case Stage::q:
                return explain_operand(load_q().staged.expected);
            case Stage::k:
                return explain_operand(load(place_.tile.kv_tile).k.staged.expected);
            case Stage::v:
                return explain_operand(load(place_.tile.kv_tile).v.staged.expected);
            case Stage::o:
            case Stage::lse:
                return explain_outputs();
            default:
                return explain_tile();
        }
    }

    /// In the element's tile.
    Eigen::Index row() const { return place_.row - context().first_row; }
    Eigen::Index col() const { return place_.col - context().first_col; }

 private:
    TileContext context() const { return tile_context(problem_, place_.stage, place_.tile); }
    TileId tile(std::int64_t kv_tile) const {
        return {place_.tile.batch, place_.tile.head, place_.tile.q_block, kv_tile};
    }

    LoadedOperand load_operand(Stage stage, Input input, std::int64_t head, std::int64_t first,
                               std::int64_t rows, const std::optional<MatrixF>& dumped) const {
        LoadedOperand operand;
        operand.staged = staged_operand(call_, stage, first,
                                        load_input(recording_, input, place_.tile.batch, head, first, rows));
        operand.used =
            dumped ? dumped_operand(call_, stage, first, operand.staged, *dumped) : operand.staged.natural;
        return operand;
    }

    LoadedOperand load_q() const {
        return load_operand(Stage::q, Input::q, place_.tile.head, place_.tile.q_block * problem_.block_m,
                            tile_extent(problem_, Stage::q, tile(0)).rows,
                            load_tile(recording_, problem_, Stage::q, tile(0)));
    }

    LoadedTile load(std::int64_t kv_tile) const {
        LoadedTile loaded;
        for (const Stage stage : forward_tile_stages)
            loaded.dumped[static_cast<std::size_t>(stage)] =
                load_tile(recording_, problem_, stage, tile(kv_tile));
        const auto operand = [&](Stage stage, Input input) {
            return load_operand(stage, input, problem_.head_kv(place_.tile.head), kv_tile * problem_.block_n,
                                tile_extent(problem_, stage, tile(kv_tile)).rows,
                                loaded.dumped[static_cast<std::size_t>(stage)]);
        };
        loaded.k = operand(Stage::k, Input::k);
        loaded.v = operand(Stage::v, Input::v);
        return loaded;
    }

    /// Steps through the tiles in the kernel's order, up to that of the element where that is in a tile.
    void walk(const Operand& q, Replay& replay) const {
        const bool in_tile = !is_output(place_.stage);
        for (std::int64_t i = 0; i < problem_.kv_tiles(); ++i) {
            const std::int64_t kv_tile = kv_tile_in_order(problem_, call_.units.kv_order, i);
            const bool is_last = in_tile && kv_tile == place_.tile.kv_tile;
            // A score is computed from its operands alone.
            if (place_.stage == Stage::s && !is_last) continue;
            if (!takes_part(recording_, problem_, forward_tile_stages, tile(kv_tile))) continue;
            const LoadedTile loaded = load(kv_tile);
            replay.step(kv_tile, {q, loaded.k.used, loaded.v.used}, loaded.dumped);
            if (is_last) return;
        }
    }

    Explained explain_operand(const Estimate& expected) const {
        return {expected, operand_terms(call_, place_.stage, context().first_row, expected, row(), col())};
    }

    Explained explain_tile() const {
        Explained explained;
        const auto look_on = [&](Stage stage, const TileInputs& inputs) {
            Estimate estimate = expected_of(stage, inputs);
            if (stage == place_.stage && inputs.kv_tile == place_.tile.kv_tile)
                explained = {estimate, terms_of(stage, inputs, row(), col())};
            return estimate;
        };
        Replay replay(call_, place_.tile.q_block, place_.stage, Replay::Source::stages, look_on);
        walk(load_q().used, replay);
        return explained;
    }

    Explained explain_outputs() const {
        Replay replay(call_, place_.tile.q_block, Stage::acc, Replay::Source::stages);
        walk(load_q().used, replay);
        const std::vector<RunningState> splits = replay.begun_splits();
        if (place_.stage == Stage::o) return {replay.output(), output_terms(call_, splits, row(), col())};
        return {replay.log_sum_exp(), log_sum_exp_terms(call_, splits, row())};
    }

    const Recording& recording_;
    const HeadCall& call_;
    const ElementPlace& place_;
    const Problem& problem_;
};

ExplainedElement explain_element(const Recording& recording, const HeadCall& call,
                                 const ElementPlace& place) {
    if (call.problem.direction == Direction::backward) return explain_gradient(recording, call, place);
    const ElementReplay replay(recording, call, place);
    Explained explained = replay.explain();
    return {explained.estimate.value(replay.row(), replay.col()),
            explained.estimate.error(replay.row(), replay.col()), std::move(explained.terms)};
}

/// From natural units to those of the dump.
void convert(const HeadCall& call, const ElementPlace& place, Explanation& explanation) {
    const TileShape extent = tile_extent(call.problem, place.stage, place.tile);
    const DumpFactor factor =
        dump_factor(call, place.stage, place.tile.q_block * call.problem.block_m,
                    place.tile.kv_tile * call.problem.block_n, extent.rows, extent.cols);
    if (factor.is_one()) return;
    const TileContext context = tile_context(call.problem, place.stage, place.tile);
    const double by = factor.at(place.row - context.first_row, place.col - context.first_col);
    Element& element = explanation.element;
    element.expected *= by;
    if (element.tolerance != 0) element.tolerance *= by;
    explanation.terms.scale(by, in_formula(by) + " (dump units)");
    if (!std::isfinite(element.expected)) return;
    const double own = std::abs(element.expected) * u_oracle;
    element.tolerance += own;
    explanation.terms.add_own_error(own);
}

}  // namespace

Explanation explain_tolerance(const Recording& recording, const ElementPlace& place, double confidence) {
    if (!recording.has_inputs())
        throw Error("/inputs is missing or not whole", recording.name(),
                    "record q, k and v as well, and dout and lse of a backward pass");
    if (is_named(place.stage))
        throw Error(std::string(stage_info(recording.problem(), place.stage).name) +
                        " is a named tile and has no reference",
                    recording.name(), "compare it with another recording of the same call");
    require_known_semantics(recording);
    const HeadRange heads = query_heads(recording.problem(), place.stage, place.tile.head);
    const HeadCall call =
        make_head_call(recording, rounding_model_of(recording, confidence), place.tile.batch, heads.first);
    Explanation explanation;
    explanation.stage = place.stage;
    explanation.problem = call.problem;
    explanation.threads = recording.threads();
    Element& element = explanation.element;
    element.tile = place.tile;
    element.row = place.row;
    element.col = place.col;
    const std::optional<MatrixF> got = recording.has_stage(place.stage)
                                           ? load_tile(recording, call.problem, place.stage, place.tile)
                                           : std::nullopt;
    if (!got) {
        throw Error("the tile of " + std::string(stage_info(place.stage).name) + " at " +
                        tensor_place_of(call.problem, place.stage, element) + " was not captured",
                    recording.name(), "name an element of a tile that was, or record this one");
    }
    ExplainedElement explained = explain_element(recording, call, place);
    const TileContext context = tile_context(call.problem, place.stage, place.tile);
    const float value = (*got)(place.row - context.first_row, place.col - context.first_col);
    explanation.written = !is_unwritten(value);
    element.got = double(value);
    element.expected = explained.expected;
    element.tolerance = explained.error;
    explanation.terms = std::move(explained.terms);
    // Parts of an infinity say nothing, unless it is one of them.
    const double total = explanation.terms.total();
    if (!std::isfinite(element.expected) || std::isnan(total) ||
        (std::isinf(element.tolerance) && explanation.terms.rows().size() > 1))
        explanation.terms.clear();
    explanation.lambda = call.rounding.lambda_of(place.stage);
    explanation.confidence = confidence;
    convert(call, place, explanation);
    return explanation;
}

}  // namespace tilescope
