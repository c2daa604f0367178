#include "oracle/replay/gradient_replay.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "dump/schema/semantics.h"
#include "oracle/formula/gradients.h"
#include "oracle/formula/softmax.h"

namespace tilescope {

namespace {

Estimate exact(Matrix value) {
    Matrix error = Matrix::Zero(value.rows(), value.cols());
    return {std::move(value), std::move(error)};
}

/// P is 0 where the score is -inf, whatever lse holds in a row that sees no key.
void clear_hidden(const Matrix& scores, Estimate& p) {
    for (Eigen::Index i = 0; i < scores.size(); ++i) {
        if (scores.data()[i] == -std::numeric_limits<double>::infinity())
            p.value.data()[i] = p.error.data()[i] = 0;
    }
}

/// delta as it was dumped, where nothing says what it should be; what another run has for it is as good.
Estimate given_delta(const MatrixF& dumped, const std::optional<MatrixF>& others) {
    Estimate delta = settle(unknown_rows(dumped.rows()), dumped);
    if (others) delta.error += (others->cast<double>() - delta.value).cwiseAbs();
    return delta;
}

/// P before its cast.
Estimate uncast_probabilities(const GradientInputs& in) {
    Estimate p = probabilities(in.call, *in.scores, in.rows.lse);
    clear_hidden(in.scores->value, p);
    return p;
}

}  // namespace

Estimate unknown_rows(std::int64_t rows) {
    return {Matrix::Constant(rows, 1, std::numeric_limits<double>::quiet_NaN()),
            Matrix::Constant(rows, 1, std::numeric_limits<double>::infinity())};
}

LoadedGradientKeys load_gradient_keys(const HeadCall& call, const HeadInputs& inputs, const TileId& tile,
                                      const DumpedTile& dumped) {
    const std::int64_t first = tile.kv_tile * call.problem.block_n;
    const std::int64_t count = tile_extent(call.problem, Stage::k, tile).rows;
    const auto from_stages = [&](Stage stage, const StagedOperand& operand) {
        const auto& values = of(dumped, stage);
        return values ? dumped_operand(call, stage, first, operand, *values) : operand.natural;
    };
    LoadedGradientKeys keys;
    keys.k = staged_operand(call, Stage::k, first, inputs.k(first, count));
    keys.v = staged_operand(call, Stage::v, first, inputs.v(first, count));
    keys.k_from_stages = from_stages(Stage::k, keys.k);
    keys.v_from_stages = from_stages(Stage::v, keys.v);
    return keys;
}

LoadedGradientRows load_gradient_rows(const Recording& recording, const HeadCall& call, const TileId& tile,
                                      const Recording* other) {
    const Problem& problem = call.problem;
    const TileId id{tile.batch, tile.head, tile.q_block, 0};
    const std::int64_t first = tile.q_block * problem.block_m;
    const std::int64_t rows = tile_extent(problem, Stage::q, id).rows;
    const auto input = [&](Input which) {
        return load_input(recording, which, tile.batch, tile.head, first, rows);
    };
    LoadedGradientRows loaded;
    loaded.q = staged_operand(call, Stage::q, first, input(Input::q));
    loaded.dout = exact(input(Input::dout));
    loaded.from_inputs.q = loaded.q.natural;
    loaded.from_inputs.dout = loaded.dout.value;
    const double lse_unit = call.units.lse_log_base == LogBase::two ? std::numbers::ln2 : 1;
    loaded.from_inputs.lse = exact(input(Input::lse) * lse_unit);

    const bool has_o = recording.has_input(Input::o);
    const Matrix o = has_o ? input(Input::o) : Matrix();
    loaded.from_inputs.delta = has_o ? row_delta(call, loaded.dout.value, o) : unknown_rows(rows);

    loaded.from_stages = loaded.from_inputs;
    GradientRows& staged = loaded.from_stages;
    if (const auto q = load_tile(recording, problem, Stage::q, id))
        staged.q = dumped_operand(call, Stage::q, first, loaded.q, *q);
    if (const auto dout = load_tile(recording, problem, Stage::dout, id)) {
        staged.dout = settle(loaded.dout, *dout).value;
        if (has_o) staged.delta = row_delta(call, staged.dout, o);
    }
    loaded.delta = staged.delta;
    if (const auto delta = load_tile(recording, problem, Stage::delta, id)) {
        staged.delta = settle(loaded.delta, *delta);
        const auto of_other =
            other != nullptr ? load_tile(*other, problem, Stage::delta, id) : std::optional<MatrixF>();
        if (!has_o) loaded.from_inputs.delta = given_delta(*delta, of_other);
    }
    return loaded;
}

Estimate expected_of(Stage stage, const GradientInputs& in) {
    const Units& units = in.call.units;
    switch (stage) {
        case Stage::s:
            return dumped_scores(in.call, in.first_row, in.first_key, in.rows.q, in.k);
        case Stage::p:
            return cast_probabilities(in.call, uncast_probabilities(in), units.p_cast);
        case Stage::dp:
            return probability_gradients(in.call, in.rows.dout, in.v);
        default: {
            Estimate ds = score_gradients(in.call, *in.p, *in.dp, in.rows.delta);
            if (in.cap != nullptr && units.ds_capped) ds = chain_cap(ds, *in.cap);
            return cast_scaled(in.call, std::move(ds), units.ds_cast, {units.ds_scale, {}, {}},
                               Overflow::to_infinity);
        }
    }
}

Estimate gradient_scores(const HeadCall& call, std::int64_t first_row, std::int64_t first_key,
                         Estimate dumped) {
    Estimate scores = finish_scores(call, first_row, first_key, std::move(dumped));
    if (masks_with_number(call.units)) {
        const std::vector<bool> all(std::size_t(scores.value.rows()), true);
        hide_masked(call, first_row, first_key, all, scores);
    }
    return scores;
}

GradientTile replay_gradient_tile(const HeadCall& call, const TileId& tile, const GradientRows& rows,
                                  const Operand& k, const Operand& v, const DumpedTile& dumped,
                                  Replay::Source source, const GradientFormula& formula) {
    GradientInputs in{call, tile.q_block * call.problem.block_m, tile.kv_tile * call.problem.block_n, rows, k,
                      v};
    GradientTile result;
    const auto compute = [&](Stage stage) {
        return formula ? formula(stage, in, result) : expected_of(stage, in);
    };
    const auto settled = [&](Stage stage, const Estimate& estimate) {
        const auto& values = of(dumped, stage);
        if (!values || source == Replay::Source::inputs) return estimate;
        return settle(estimate, *values,
                      dump_factor(call, stage, in.first_row, in.first_key, values->rows(), values->cols()));
    };
    const Units& units = call.units;
    result.s = compute(Stage::s);
    result.dumped_s = settled(Stage::s, result.s);
    result.scores = gradient_scores(call, in.first_row, in.first_key, result.dumped_s);
    in.scores = &result.scores;

    // The dump holds P before its cast or after it; the other of the two is computed.
    result.p = compute(Stage::p);
    const Estimate p = settled(Stage::p, result.p);
    const bool uncast = units.p_cast == Dtype::f32;
    result.p_operand = uncast ? cast_probabilities(call, p, call.problem.dtype_p) : p;
    if (uncast) result.uncast_p = p;

    result.dp = compute(Stage::dp);
    result.dp_in_ds = settled(Stage::dp, result.dp);
    result.p_in_ds = units.ds_from_cast_p ? result.p_operand : uncast ? p : uncast_probabilities(in);
    const bool capped = call.capped();
    if (capped) {
        result.cap = cap_derivative(call, in.first_row, in.first_key, result.dumped_s);
        in.cap = &result.cap;
    }
    in.p = &result.p_in_ds;
    in.dp = &result.dp_in_ds;
    result.ds = compute(Stage::ds);
    Estimate whole = settled(Stage::ds, result.ds);
    if (capped && !units.ds_capped) whole = chain_cap(whole, result.cap);
    const bool is_operand = units.ds_cast != Dtype::f32;
    if (!is_operand) result.uncast_ds = whole;
    result.ds_operand = is_operand ? std::move(whole)
                                   : cast_scaled(call, std::move(whole), call.problem.dtype_ds,
                                                 {units.ds_scale, {}, {}}, Overflow::to_infinity);
    return result;
}

}  // namespace tilescope
