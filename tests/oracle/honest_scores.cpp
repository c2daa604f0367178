#include "tests/oracle/honest_scores.h"

#include <algorithm>

namespace tilescope::test {

namespace {

bool holds_base(Softmax softmax) {
    return softmax == Softmax::raw_exp || softmax == Softmax::raw_exp2 ||
           softmax == Softmax::raw_exp2_unfused || softmax == Softmax::raw_with_base_two_max;
}

/// ALiBi and bias of a cell, in natural units.
float bias_of(const Block& b, std::int64_t row, std::int64_t key) {
    float bias = b.in.bias.empty() ? 0 : b.in.bias.at(b.id.batch, b.id.head, row, key);
    if (b.p.alibi == Alibi::none) return bias;
    const std::vector<float>& slopes = b.in.side.alibi_slopes;
    const bool per_batch = std::ssize(slopes) > b.p.heads;
    const float slope = slopes[std::size_t((per_batch ? b.id.batch * b.p.heads : 0) + b.id.head)];
    const auto diagonal = float(b.diagonal(row));
    const float distance = float(key) - diagonal;
    if (b.p.alibi == Alibi::distance) return std::fma(-slope, std::abs(distance), bias);
    if (b.a.separate_alibi) return bias + std::fma(slope, float(key), -(slope * diagonal));
    return std::fma(slope, distance, bias);
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

/// The score as the softmax takes it, before the mask.
float held_score(const Block& b, float base, std::int64_t row, std::int64_t key, bool with_bias) {
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
    return held_score(b, base, row, key, !b.a.dumps_unbiased_s);
}

/// A mask that comes before the cap leaves its limit.
float held_hidden(const Block& b, std::int64_t row, std::int64_t key) {
    return b.faulty(Mistake::masked_before_cap, row - b.first_row()) ? held_score(b, -1, row, key, true)
                                                                     : -infinity;
}

}  // namespace

Scores compute_scores(Block& b, const Tile& q, const Tile& k) {
    Scores scores{Tile(b.rows, k.rows), Tile(b.rows, k.rows)};
    Tile dumped(b.rows, k.rows);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < k.rows; ++j) {
            const std::int64_t row = b.first_row() + i;
            const std::int64_t key = b.first_key() + j;
            const float product = sum_of_products(b.a.score_sum, 0, q.row(i), k.row(j).data(), 1);
            const bool twice = b.faulty(Mistake::scaled_twice, i);
            const float sum = twice ? product * float(b.p.sm_scale) : product;
            const float base = base_of(b, sum, row, key);
            const bool visible = b.is_visible(row, key);
            const bool taken = b.faulty(Mistake::mask_off_by_one, i) ? b.is_visible(row + 1, key) : visible;
            const float healthy =
                visible ? held_score(b, base_of(b, product, row, key), row, key, true) : -infinity;
            const float held = taken ? held_score(b, base, row, key, true) : held_hidden(b, row, key);
            scores.base.at(i, j) = base;
            scores.held.at(i, j) = b.changed(healthy, held, row, key);
            const bool hides = !taken && !b.a.dumps_unmasked_s;
            dumped.at(i, j) = hides ? held_hidden(b, row, key) : dumped_score(b, sum, base, row, key);
        }
    }
    b.record(Stage::s, dumped);
    return scores;
}

}  // namespace tilescope::test
