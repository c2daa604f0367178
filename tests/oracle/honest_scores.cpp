#include "tests/oracle/honest_scores.h"

#include <algorithm>

#include "tests/oracle/honest_points.h"

namespace tilescope::test {

namespace {

bool holds_base(Softmax softmax) {
    return softmax == Softmax::raw_exp || softmax == Softmax::raw_exp2 ||
           softmax == Softmax::raw_exp2_unfused || softmax == Softmax::raw_with_base_two_max;
}

/// ALiBi and bias of a cell, in natural units.
float bias_of(const Block& b, std::int64_t row, std::int64_t key) {
    BiasTerms terms;
    if (!b.in.bias.empty()) terms.bias = b.in.bias.at(b.id.batch, b.id.head, row, key);
    if (b.p.alibi != Alibi::none) {
        const std::vector<float>& slopes = b.in.side.alibi_slopes;
        const bool per_batch = std::ssize(slopes) > b.p.heads;
        terms.slope = slopes[std::size_t((per_batch ? b.id.batch * b.p.heads : 0) + b.id.head)];
    }
    if (const auto change = b.at(&Points::bias)) change(b, row, key, terms);
    if (b.p.alibi == Alibi::none) return terms.bias;
    const auto diagonal = float(b.diagonal(row));
    const auto column = float(b.position(key) + terms.shift);
    if (b.p.alibi == Alibi::distance) return std::fma(-terms.slope, std::abs(column - diagonal), terms.bias);
    if (b.a.separate_alibi) return terms.bias + std::fma(terms.slope, column, -(terms.slope * diagonal));
    return std::fma(terms.slope, column - diagonal, terms.bias);
}

float tangent(const Block& b, float x) {
    const double exact = std::tanh(double(x));
    if (b.a.tanh == TanhFunction::tanhf) return b.a.worst_exp ? off_by_two_ulp(exact, x) : float(exact);
    const double approximate = exact * (1 + sign_from(x) * 0.9 * 0x1p-11);
    return float(std::clamp(approximate, -1.0, 1.0));
}

/// What the last multiplication takes: the sum itself, or the tangent of the cap.
float base_of(const Block& b, float sum, std::int64_t row, std::int64_t key) {
    if (!b.capped()) return sum;
    const auto cap = float(b.p.logits_soft_cap);
    const float scale = b.scale(row, key);
    // A kernel that dumps scores before their cap has them; others multiply once.
    if (b.a.dumps_uncapped_s && !holds_base(b.a.softmax)) return tangent(b, b.quotient(sum * scale, cap));
    return tangent(b, sum * b.quotient(scale, cap));
}

/// The score before the mask, with or without its bias.
float score_of(const Block& b, float base, std::int64_t row, std::int64_t key, bool with_bias) {
    const bool base_two = b.a.softmax == Softmax::base_two;
    const float factor = base_two ? b.last_factor_log2(row, key) : b.last_factor(row, key);
    const bool adds = with_bias && b.biased();
    const float bias = adds ? bias_of(b, row, key) : 0;
    if (holds_base(b.a.softmax)) return adds ? base + b.quotient(bias, factor) : base;
    const float in_units = base_two ? bias * log2e : bias;
    // What is dumped in between is rounded in between.
    if (b.a.softmax == Softmax::natural_contracted && adds && !b.a.dumps_unbiased_s)
        return std::fma(base, factor, in_units);
    const float product = base * factor;
    return adds ? product + in_units : product;
}

/// The score as it is dumped, before the mask.
float dumped_score(const Block& b, float sum, float base, std::int64_t row, std::int64_t key) {
    if (b.capped() && b.a.dumps_uncapped_s) return holds_base(b.a.softmax) ? sum : sum * b.scale(row, key);
    return score_of(b, base, row, key, !b.a.dumps_unbiased_s);
}

/// Whether the tile's column is one of the batch entry's keys, or is taken for one.
bool is_key(const Block& b, std::int64_t key) {
    return key < b.p.seqlen_kv || (b.points != nullptr && b.points->tail == Tail::unmasked);
}

bool is_shown(const Block& b, std::int64_t row, std::int64_t key) {
    if (!is_key(b, key)) return false;
    const auto visible = b.at(&Points::visible);
    return visible != nullptr ? visible(b, row, key) : b.is_visible(row, key);
}

/// Sums of products, rows x keys.
Tile products(const Block& b, const Tile& q, const Tile& k) {
    const auto operand = b.at(&Points::k_operand);
    const Tile taken = operand != nullptr ? operand(b, k) : k;
    const auto product = b.at(&Points::product);
    Tile sums(q.rows, k.rows);
    for (std::int64_t i = 0; i < q.rows; ++i) {
        for (std::int64_t j = 0; j < k.rows; ++j) {
            float& sum = sums.at(i, j);
            sum = sum_of_products(b.a.score_sum, 0, q.row(i), taken.row(j).data(), 1);
            if (product != nullptr) sum = product(b, sum, i, j);
        }
    }
    return sums;
}

Scores scores_of(const Block& b, const Tile& q, const Tile& k) {
    const Tile sums = products(b, q, k);
    Scores scores{Tile(b.rows, k.rows), Tile(b.rows, k.rows), Tile(b.rows, k.rows)};
    const auto hidden = b.at(&Points::hidden);
    const auto changed = b.at(&Points::score);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < k.rows; ++j) {
            const std::int64_t row = b.first_row() + i;
            const std::int64_t key = b.first_key() + j;
            const float base = base_of(b, sums.at(i, j), row, key);
            scores.base.at(i, j) = base;
            const bool shown = is_shown(b, row, key);
            float held = b.a.masked_s;
            if (shown) {
                held = held_score(b, base, row, key);
                if (changed != nullptr) held = changed(b, held);
            } else if (hidden != nullptr) {
                held = hidden(b, row, key);
            }
            held = rounded(b.a.kept_s, held);
            scores.held.at(i, j) = held;
            const bool as_held =
                (!shown && !b.a.dumps_unmasked_s) || changed != nullptr || b.a.kept_s != Dtype::f32;
            scores.dumped.at(i, j) = as_held ? held : dumped_score(b, sums.at(i, j), base, row, key);
        }
    }
    return scores;
}

}  // namespace

float held_score(const Block& b, float base, std::int64_t row, std::int64_t key) {
    return score_of(b, base, row, key, true);
}

Scores compute_scores(Block& b, const Tile& q, const Tile& k) {
    return take(b, Stage::s, [&](const Block& block) { return scores_of(block, q, k); });
}

}  // namespace tilescope::test
