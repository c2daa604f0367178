#include "tests/oracle/honest_backward_tile.h"

#include <algorithm>
#include <cmath>

#include "tests/oracle/honest_softmax.h"

namespace tilescope::test {

namespace {

/// Rows of dout, o or lse.
Tile rows_of(const Block& b, const std::vector<float>& values, std::int64_t first, std::int64_t count,
             std::int64_t cols) {
    const std::int64_t head = b.id.batch * b.p.heads + b.id.head;
    const std::int64_t seqlen_q = b.run.recording.problem().seqlen_q;
    Tile tile(count, cols);
    std::copy_n(values.begin() + (head * seqlen_q + first) * cols, count * cols, tile.values.begin());
    return tile;
}

/// Row sum as the threads of a row add it up: each its own columns, then a butterfly.
float dot(std::span<const float> a, std::span<const float> b, std::int64_t lanes) {
    std::vector<float> partial(std::size_t(lanes), 0.0f);
    for (std::size_t d = 0; d < a.size(); ++d) {
        float& sum = partial[d % std::size_t(lanes)];
        sum = std::fma(a[d], b[d], sum);
    }
    return sum_of_tree(partial);
}

/// The argument of the exponential, to the base that exponential() takes, of the scores in any units.
float backward_argument(const Block& b, float base, float score, float lse, std::int64_t row,
                        std::int64_t key) {
    const bool base_two = b.a.lse_log_base == LogBase::two;
    const float natural = base_two ? lse * ln2 : lse;
    const float two = base_two ? lse : lse * log2e;
    switch (b.a.softmax) {
        case Softmax::natural:
        case Softmax::natural_fast:
            return score - natural;
        case Softmax::natural_contracted:
            return b.biased() ? score - natural : std::fma(base, b.last_factor(row, key), -natural);
        case Softmax::natural_exp2:
            return (score - natural) * log2e;
        case Softmax::raw_exp:
            return std::fma(score, b.last_factor(row, key), -natural);
        case Softmax::raw_exp2:
        case Softmax::raw_with_base_two_max:
            return std::fma(score, b.last_factor_log2(row, key), -two);
        case Softmax::raw_exp2_unfused:
            return score * b.last_factor_log2(row, key) - two;
        case Softmax::base_two:
            return score - two;
        case Softmax::natural_with_base_two_max:
            return std::fma(score, log2e, -two);
    }
    return 0;
}

/// lse of a row as the kernel takes it.
float lse_of(const Block& b, const GradientRows& rows, const Scores& scores, std::int64_t i) {
    const float lse = rows.lse[std::size_t(i)];
    if (b.makes(Mistake::p_from_max)) return *std::ranges::max_element(scores.held.row(i));
    if (b.makes(Mistake::lse_base_confused))
        return b.a.lse_log_base == LogBase::two ? lse * log2e : lse * ln2;
    return lse;
}

/// P as ds takes it, without p_scale; as it is dumped before its cast; and as it multiplies dout.
struct P {
    float natural = 0;
    float scaled = 0;
    float operand = 0;
};

P probability(const Block& b, const Scores& scores, float lse, std::int64_t i, std::int64_t j) {
    const std::int64_t row = b.first_row() + i;
    const std::int64_t key = b.first_key() + j;
    float score = scores.held.at(i, j);
    P p;
    if (score == -infinity) {
        if (!b.makes(Mistake::p_not_masked)) return p;
        // What a score of 0 gives stands for the score that the mask should have hidden.
        score = 0;
    }
    const float value =
        exponential(b, backward_argument(b, scores.base.at(i, j), score, lse, row, key) + log_p_scale(b));
    const auto scale = float(b.a.p_scale);
    p.natural = b.a.p_scale_in_exponent ? value / scale : value;
    p.scaled = b.a.p_scale_in_exponent ? value : value * scale;
    p.operand = rounded(b.a.p_operand, p.scaled, Overflow::saturate);
    if (b.a.ds_from_cast_p) p.natural = b.quotient(p.operand, scale);
    return p;
}

/// ds as it is dumped before its cast, and with all of its factors.
struct Ds {
    float dumped = 0;
    float whole = 0;
};

Ds score_gradient(const Block& b, float p, float dp, float delta, float cap) {
    const Arithmetic& a = b.a;
    const auto scale = float(a.ds_scale);
    const float factor = b.makes(Mistake::ds_without_p) ? 1 : p;
    const float difference = b.makes(Mistake::ds_without_delta) ? dp : dp - delta;
    if (a.dumps_uncapped_ds) {
        const float dumped = factor * difference * scale;
        return {dumped, dumped * cap};
    }
    float ds = 0;
    switch (a.ds_order) {
        case DsOrder::difference_first:
            ds = factor * difference * cap * scale;
            break;
        case DsOrder::cap_first:
            ds = factor * cap * difference * scale;
            break;
        case DsOrder::scale_first:
            ds = factor * (difference * scale) * cap;
            break;
    }
    return {ds, ds};
}

float cap_derivative(const Block& b, float tangent) {
    if (!b.capped() || b.makes(Mistake::ds_without_cap)) return 1;
    return b.a.fused_cap ? std::fma(-tangent, tangent, 1.0f) : 1 - tangent * tangent;
}

}  // namespace

GradientRows load_rows(Block& b) {
    const std::int64_t first = b.first_row();
    GradientRows rows{stage_operand(b, Stage::q), rows_of(b, b.in.dout, first, b.rows, b.p.head_dim_v),
                      Tile(b.rows, 1), rows_of(b, b.in.lse, first, b.rows, 1).values};
    const std::int64_t next_rows = std::min(b.rows, b.p.seqlen_q - first - b.p.block_m);
    if (b.makes(Mistake::dout_of_next_block) && next_rows > 0) {
        const Tile next = rows_of(b, b.in.dout, first + b.p.block_m, next_rows, b.p.head_dim_v);
        std::ranges::copy(next.values, rows.dout.values.begin());
    }
    const Tile o = rows_of(b, b.in.o, first, b.rows, b.p.head_dim_v);
    const std::int64_t shift = b.makes(Mistake::delta_of_next_o) ? 1 : 0;
    for (std::int64_t i = 0; i < b.rows; ++i)
        rows.delta.at(i, 0) = dot(rows.dout.row(i), o.row((i + shift) % b.rows), b.a.delta_lanes);
    b.record(Stage::dout, rows.dout);
    b.record(Stage::delta, rows.delta);
    return rows;
}

TileGradients compute_tile(Block& b, const GradientRows& rows) {
    const Arithmetic& a = b.a;
    const Tile k = stage_operand(b, Stage::k);
    const Tile v = stage_operand(b, Stage::v);
    const Scores scores = compute_scores(b, rows.q, k);
    Tile p_dumped(b.rows, k.rows);
    Tile dp(b.rows, k.rows);
    Tile ds_dumped(b.rows, k.rows);
    TileGradients result{Tile(b.rows, k.rows), Tile(b.rows, k.rows), k};
    const std::int64_t shift = b.makes(Mistake::ds_delta_of_next_row) ? 1 : 0;
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const float lse = lse_of(b, rows, scores, i);
        const float delta = rows.delta.at((i + shift) % b.rows, 0);
        for (std::int64_t j = 0; j < k.rows; ++j) {
            const P p = probability(b, scores, lse, i, j);
            p_dumped.at(i, j) = b.a.dumps_cast_p ? p.operand : p.scaled;
            result.p_operand.at(i, j) = p.operand;
            dp.at(i, j) = sum_of_products(a.dp_sum, 0, rows.dout.row(i), v.row(j).data(), 1) * b.v_descale();
            if (scores.held.at(i, j) == -infinity && p.natural == 0) continue;
            const float cap = cap_derivative(b, scores.base.at(i, j));
            const Ds ds = score_gradient(b, p.natural, dp.at(i, j), delta, cap);
            const float operand = rounded(a.ds_operand, ds.whole);
            result.ds_operand.at(i, j) = operand;
            ds_dumped.at(i, j) = a.dumps_cast_ds ? operand : ds.dumped;
        }
    }
    b.record(Stage::p, p_dumped);
    b.record(Stage::dp, dp);
    b.record(Stage::ds, ds_dumped);
    return result;
}

}  // namespace tilescope::test
