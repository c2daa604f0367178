// The terms of a backward pass.

#include "oracle/explain_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dump/semantics.h"
#include "oracle/gradient_replay.h"
#include "oracle/gradient_sum.h"
#include "oracle/gradients.h"
#include "oracle/products.h"
#include "oracle/tiles.h"

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
    const TileOperands operands{loaded.rows.from_stages.q, loaded.keys.k_from_stages,
                                loaded.keys.v_from_stages};
    TileInputs inputs{call, place.tile.kv_tile, place.tile.q_block * call.problem.block_m,
                      place.tile.kv_tile * call.problem.block_n, operands};
    if (place.stage == Stage::s) return score_terms(inputs, row, col);
    if (loaded.tile.scores.value(row, col) == -std::numeric_limits<double>::infinity()) return {};
    inputs.dumped_s = &loaded.tile.dumped_s;
    inputs.s = &loaded.tile.scores;
    inputs.m = &loaded.rows.from_stages.lse;
    return probability_terms(inputs, row, col);
}

BudgetTerms delta_terms(const HeadCall& call, const Matrix& dout, const Matrix& o, Eigen::Index row) {
    BudgetTerms terms;
    add_product_terms(call, Stage::delta, Accumulation::fma_f32, dout, o, true,
                      Matrix::Zero(dout.rows(), o.rows()), 1, row, row, terms);
    return terms;
}

BudgetTerms dp_terms(const HeadCall& call, const Matrix& dout, const Operand& v, Eigen::Index row,
                     Eigen::Index col) {
    BudgetTerms terms;
    add_product_terms(call, Stage::dp, call.units.dp_accumulation, dout, v.value, true,
                      Matrix::Zero(dout.rows(), v.value.rows()), 1, row, col, terms);
    const double products = dout.row(row).cwiseAbs().dot(v.value.row(col).cwiseAbs());
    terms.add("v not dumped, dequantised",
              fmt::format("{:.3g} * {:.3g}, sum of |products|", v.error, products), v.error * products,
              "from v");
    const double dp = std::abs(dout.row(row).dot(v.value.row(col)));
    if (!call.units.v_dequantised)
        terms.add("product with descale_v", roundings(1, dp), u_f32 * dp, "IEEE 754");
    return terms;
}

/// The cast of a value of at most `magnitude` with a scale.
void add_scaled_cast(Dtype cast, double scale, double magnitude, BudgetTerms& terms) {
    if (cast == Dtype::f32) return;
    const double quantum = half_quantum(cast) / scale;
    terms.add(fmt::format("cast of ds to {}", dtype_info(cast).name),
              fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(cast), magnitude, quantum),
              unit_roundoff(cast) * magnitude + quantum, "IEEE 754");
}

BudgetTerms ds_terms(const HeadCall& call, const GradientTile& tile, const Estimate& delta, Eigen::Index row,
                     Eigen::Index col) {
    BudgetTerms terms;
    const double p = tile.p_in_ds.value(row, col);
    const double p_error = tile.p_in_ds.error(row, col);
    if (p == 0 && p_error == 0) return terms;
    const double magnitude = std::abs(p);
    const double difference = std::abs(tile.dp_in_ds.value(row, col) - delta.value(row, 0));
    const double dp_error = tile.dp_in_ds.error(row, col);
    const double delta_error = delta.error(row, 0);
    const double subtraction = u_f32 * difference;
    const double of_difference = dp_error + delta_error + subtraction + u_oracle * difference;
    const double value = magnitude * difference;
    terms.add("dp, not dumped", fmt::format("{:.3g} * {:.3g} (p)", dp_error, magnitude), dp_error * magnitude,
              "from dp");
    terms.add("delta, not dumped", fmt::format("{:.3g} * {:.3g} (p)", delta_error, magnitude),
              delta_error * magnitude, "from delta");
    terms.add("dp - delta", fmt::format("{:.3g} * {:.3g} * {:.3g} (p)", u_f32, difference, magnitude),
              subtraction * magnitude, "IEEE 754");
    terms.add("p, not dumped",
              fmt::format("{:.3g} * {:.3g}, |dp - delta|", p_error, difference + of_difference),
              p_error * (difference + of_difference), "from p");
    const double count = ds_roundings(call);
    terms.add("products with dp - delta", roundings(count, value), gamma(count, u_f32) * value,
              "Higham, lemma 3.1");
    terms.add_own_error(u_oracle * (difference * magnitude + value));
    terms.add_flush_to_zero(flush_to_zero / call.units.ds_scale);
    double ds = value;
    if (call.capped() && call.units.ds_capped) {
        const double slope = std::abs(tile.cap.value(row, col));
        const double slope_error = tile.cap.error(row, col);
        terms.scale(slope + slope_error, fmt::format("{:.3g} (1 - tanh^2)", slope));
        terms.add("derivative of the soft cap", fmt::format("{:.3g} * {:.3g}", slope_error, value),
                  slope_error * value, "from s");
        ds *= slope;
    }
    add_scaled_cast(call.units.ds_cast, call.units.ds_scale, ds + terms.total(), terms);
    return terms;
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
        const Operand& other = is_dq ? loaded.keys.k_from_stages : rows.q;
        const Matrix b = (is_dv ? rows.dout : other.value).col(col_);
        const double b_error = is_dv ? 0 : other.error;
        const Estimate a{line(weights.value), line(weights.error)};
        sum_.add(call, a, line(loaded.tile.scores.value), b, b_error);

        const Matrix magnitude = b.cwiseAbs();
        of_weights_ += (a.error * magnitude)(0, 0);
        of_operand_ += b_error * ((a.value.cwiseAbs() + a.error) * magnitude)(0, 0);
    }

    ExplainedElement explain(const HeadCall& call) const {
        const GradientSum::Parts parts = sum_.parts(call, 0, 0);
        ExplainedElement element{parts.value, parts.error, {}};
        BudgetTerms& terms = element.terms;
        const std::string scaled = parts.scale == 1 ? "" : " * " + in_formula(parts.scale);
        const double inherited = (of_weights_ + of_operand_) * parts.scale;
        const double in_tiles = parts.in_tiles * parts.scale;
        terms.add("products within tiles",
                  fmt::format("{:.3g}, sum over the tiles{}", parts.in_tiles, scaled),
                  part_of(in_tiles, inherited), source_of(parts.accumulation));
        const bool is_dv = stage_ == Stage::dv;
        terms.add(is_dv ? "p, not dumped or cast" : "ds, not dumped or cast",
                  fmt::format("{:.3g}, sum of error * |operand|{}", of_weights_, scaled),
                  of_weights_ * parts.scale, is_dv ? "from p" : "from ds");
        const char* const operand =
            stage_ == Stage::dq ? "k not dumped, dequantised" : "q not dumped, dequantised";
        terms.add(operand, fmt::format("{:.3g}{}", of_operand_, scaled), of_operand_ * parts.scale,
                  "from it");
        terms.add(
            "adding up, in any order",
            fmt::format("{:.3g} * {:.3g}, sum of |tiles|{}", parts.per_magnitude, parts.magnitude, scaled),
            parts.per_magnitude * parts.magnitude * parts.scale,
            parts.is_probable ? "Higham and Mary, thm 2.4" : "Higham, section 4.2");
        const double value = std::abs(parts.value);
        terms.add("factor after the sum", roundings(rounding_count(parts.factor), value),
                  parts.factor * value, "Higham, lemma 3.1");
        terms.add_own_error(u_oracle * value);
        terms.add_flush_to_zero(flush_to_zero);
        const Dtype dtype = stage_dtype(call.problem, stage_);
        const double stored = parts.error - parts.store;
        terms.add(fmt::format("store to {}", dtype_info(dtype).name),
                  fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(dtype), value + stored,
                              half_quantum(dtype)),
                  parts.store, "IEEE 754");
        return element;
    }

 private:
    Stage stage_;
    Eigen::Index row_;
    Eigen::Index col_;
    GradientSum sum_;
    double of_weights_ = 0;
    double of_operand_ = 0;
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
    for (std::int64_t head = heads.first; head < heads.last; ++head) {
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
        return element_of(
            expected, row, col,
            operand_terms(call, place.stage, expected.value(row, col), expected.error(row, col)));
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
            return element_of(tile.ds, row, col, ds_terms(call, tile, rows.from_stages.delta, row, col));
        default:
            return element_of(place.stage == Stage::s ? tile.s : tile.p, row, col,
                              score_or_probability_terms(call, place, loaded, row, col));
    }
}

}  // namespace tilescope
