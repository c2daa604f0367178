#include "tests/oracle/honest_backward_tile.h"

#include <algorithm>
#include <cmath>

#include "tests/oracle/honest_scores.h"

namespace tilescope::test {

namespace {

/// An element of q, k or v as the kernel holds it.
float loaded(const Loading& loading, const Descale& descale, float value, std::int64_t batch,
             std::int64_t head, std::int64_t row) {
    if (!loading.dequantises || descale.empty()) return value;
    return decode(loading.cast, encode(loading.cast, value * descale.at(batch, head, row)));
}

/// Rows of an array [batch][heads][rows_of_head][tile.cols].
Tile rows_of(const std::vector<float>& values, std::int64_t head_index, std::int64_t rows_of_head,
             std::int64_t first, std::int64_t count, std::int64_t cols) {
    Tile tile(count, cols);
    std::copy_n(values.begin() + (head_index * rows_of_head + first) * cols, count * cols,
                tile.values.begin());
    return tile;
}

Tile load_q_or_dout(const GradientBlock& g, const std::vector<float>& values, std::int64_t first,
                    std::int64_t count, std::int64_t cols) {
    const Block& b = g.block;
    return rows_of(values, b.id.batch * b.p.heads + b.id.head, g.call.problem.seqlen_q, first, count, cols);
}

Tile load_keys(GradientBlock& g, Stage stage) {
    const Block& b = g.block;
    const bool is_k = stage == Stage::k;
    const std::int64_t keys = tile_extent(b.p, stage, b.id).rows;
    Tile tile = rows_of(is_k ? g.call.inputs.k : g.call.inputs.v, b.id.batch * b.p.heads_kv + b.head_kv(),
                        g.call.problem.seqlen_kv, b.first_key(), keys, is_k ? b.p.head_dim : b.p.head_dim_v);
    for (std::int64_t i = 0; i < keys; ++i) {
        for (std::int64_t d = 0; d < tile.cols; ++d) {
            tile.at(i, d) = loaded(is_k ? b.a.k : b.a.v, is_k ? b.in.side.descale_k : b.in.side.descale_v,
                                   tile.at(i, d), b.id.batch, b.head_kv(), b.first_key() + i);
        }
    }
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
float argument(const Block& b, float base, float score, float lse, std::int64_t row, std::int64_t key) {
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

bool takes_natural(Softmax softmax) {
    return softmax == Softmax::natural || softmax == Softmax::natural_contracted ||
           softmax == Softmax::natural_fast || softmax == Softmax::raw_exp;
}

float exponential(const Block& b, float x) {
    const bool fast = b.a.softmax == Softmax::natural_fast;
    const bool natural = takes_natural(b.a.softmax) && !fast;
    const float y = fast ? x * log2e : x;
    if (!b.a.worst_exp) return natural ? std::exp(y) : std::exp2(y);
    return off_by_two_ulp(natural ? std::exp(double(y)) : std::exp2(double(y)), y);
}

/// lse of a row as the kernel takes it.
float lse_of(const GradientBlock& g, const GradientRows& rows, const Scores& scores, std::int64_t i) {
    const float lse = rows.lse[std::size_t(i)];
    if (g.faulty(GradientMistake::p_from_max)) return *std::ranges::max_element(scores.held.row(i));
    if (g.faulty(GradientMistake::lse_base_confused))
        return g.block.a.lse_log_base == LogBase::two ? lse * log2e : lse * ln2;
    return lse;
}

/// P as ds takes it, without p_scale; as it is dumped before its cast; and as it multiplies dout.
struct P {
    float natural = 0;
    float scaled = 0;
    float operand = 0;
};

P probability(const GradientBlock& g, const Scores& scores, float lse, std::int64_t i, std::int64_t j) {
    const Block& b = g.block;
    const std::int64_t row = b.first_row() + i;
    const std::int64_t key = b.first_key() + j;
    float score = scores.held.at(i, j);
    P p;
    if (score == -infinity) {
        if (!g.faulty(GradientMistake::p_not_masked)) return p;
        // What a score of 0 gives stands for the score that the mask should have hidden.
        score = 0;
    }
    const float x = argument(b, scores.base.at(i, j), score, lse, row, key);
    const auto scale = float(b.a.p_scale);
    if (b.a.p_scale_in_exponent) {
        const double log = takes_natural(b.a.softmax) ? std::log(b.a.p_scale) : std::log2(b.a.p_scale);
        p.scaled = exponential(b, x + float(log));
        p.natural = p.scaled / scale;
    } else {
        p.natural = exponential(b, x);
        p.scaled = p.natural * scale;
    }
    p.operand = decode(b.a.p_operand, encode(b.a.p_operand, p.scaled, Overflow::saturate));
    if (g.a().ds_from_cast_p) p.natural = b.quotient(p.operand, scale);
    return p;
}

/// ds as it is dumped before its cast, and with all of its factors.
struct Ds {
    float dumped = 0;
    float whole = 0;
};

Ds score_gradient(const GradientBlock& g, float p, float dp, float delta, float cap) {
    const GradientArithmetic& a = g.a();
    const auto scale = float(a.ds_scale);
    const float factor = g.faulty(GradientMistake::ds_without_p) ? 1 : p;
    const float difference = g.faulty(GradientMistake::ds_without_delta) ? dp : dp - delta;
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

float cap_derivative(const GradientBlock& g, float tangent) {
    if (!g.block.capped() || g.faulty(GradientMistake::ds_without_cap)) return 1;
    return g.a().fused_cap ? std::fma(-tangent, tangent, 1.0f) : 1 - tangent * tangent;
}

}  // namespace

GradientRows load_rows(GradientBlock& g) {
    Block& b = g.block;
    const std::int64_t first = b.first_row();
    GradientRows rows{load_q_or_dout(g, g.call.inputs.q, first, b.rows, b.p.head_dim),
                      load_q_or_dout(g, g.call.dout, first, b.rows, b.p.head_dim_v),
                      Tile(b.rows, 1),
                      {}};
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t d = 0; d < b.p.head_dim; ++d)
            rows.q.at(i, d) =
                loaded(b.a.q, b.in.side.descale_q, rows.q.at(i, d), b.id.batch, b.id.head, first + i);
    }
    const std::int64_t next_rows = std::min(b.rows, b.p.seqlen_q - first - b.p.block_m);
    if (g.faulty(GradientMistake::dout_of_next_block) && next_rows > 0) {
        const Tile next = load_q_or_dout(g, g.call.dout, first + b.p.block_m, next_rows, b.p.head_dim_v);
        std::ranges::copy(next.values, rows.dout.values.begin());
    }
    const Tile o = load_q_or_dout(g, g.call.o, first, b.rows, b.p.head_dim_v);
    const std::int64_t shift = g.faulty(GradientMistake::delta_of_next_o) ? 1 : 0;
    for (std::int64_t i = 0; i < b.rows; ++i)
        rows.delta.at(i, 0) = dot(rows.dout.row(i), o.row((i + shift) % b.rows), g.a().delta_lanes);
    rows.lse = load_q_or_dout(g, g.call.lse, first, b.rows, 1).values;
    b.record(Stage::q, rows.q);
    b.record(Stage::dout, rows.dout);
    b.record(Stage::delta, rows.delta);
    return rows;
}

TileGradients compute_tile(GradientBlock& g, const GradientRows& rows) {
    Block& b = g.block;
    const GradientArithmetic& a = g.a();
    const Tile k = load_keys(g, Stage::k);
    const Tile v = load_keys(g, Stage::v);
    b.record(Stage::k, k);
    b.record(Stage::v, v);
    const Scores scores = compute_scores(b, rows.q, k);
    Tile p_dumped(b.rows, k.rows);
    Tile dp(b.rows, k.rows);
    Tile ds_dumped(b.rows, k.rows);
    TileGradients result{Tile(b.rows, k.rows), Tile(b.rows, k.rows), k};
    const std::int64_t shift = g.faulty(GradientMistake::ds_delta_of_next_row) ? 1 : 0;
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const float lse = lse_of(g, rows, scores, i);
        const float delta = rows.delta.at((i + shift) % b.rows, 0);
        for (std::int64_t j = 0; j < k.rows; ++j) {
            const P p = probability(g, scores, lse, i, j);
            p_dumped.at(i, j) = b.a.dumps_cast_p ? p.operand : p.scaled;
            result.p_operand.at(i, j) = p.operand;
            dp.at(i, j) = sum_of_products(a.dp_sum, 0, rows.dout.row(i), v.row(j).data(), 1) * b.v_descale();
            if (scores.held.at(i, j) == -infinity && p.natural == 0) continue;
            const float cap = cap_derivative(g, scores.base.at(i, j));
            const Ds ds = score_gradient(g, p.natural, dp.at(i, j), delta, cap);
            const float operand = decode(a.ds_operand, encode(a.ds_operand, ds.whole));
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
