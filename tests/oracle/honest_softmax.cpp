#include "tests/oracle/honest_softmax.h"

#include <algorithm>

#include "tests/oracle/honest_points.h"

namespace tilescope::test {

namespace {

bool is_raw(Softmax softmax) {
    return softmax == Softmax::raw_exp || softmax == Softmax::raw_exp2 ||
           softmax == Softmax::raw_exp2_unfused;
}

bool takes_natural(Softmax softmax) {
    return softmax == Softmax::natural || softmax == Softmax::natural_contracted ||
           softmax == Softmax::natural_fast || softmax == Softmax::raw_exp;
}

bool max_is_base_two(Softmax softmax) {
    return softmax == Softmax::base_two || softmax == Softmax::raw_with_base_two_max ||
           softmax == Softmax::natural_with_base_two_max;
}

/// 2^x as FlashAttention-4 computes it without the special function unit: a polynomial of the fraction,
/// within 8.8e-5.
float polynomial_exp2(float x) {
    const float whole = std::floor(x);
    const float f = x - whole;
    const float p = std::fma(std::fma(std::fma(0.077119089f, f, 0.227564394f), f, 0.695146143f), f, 1.0f);
    return std::ldexp(p, int(std::max(whole, -200.0f)));
}

/// The argument of the exponential, to the base that exponential() takes.
float argument(const Block& b, float base, float score, float m, std::int64_t row, std::int64_t key) {
    const float up = log_p_scale(b);
    switch (b.a.softmax) {
        case Softmax::natural:
        case Softmax::natural_fast:
        case Softmax::base_two:
            return score - m + up;
        case Softmax::natural_contracted:
            return (b.biased() ? score - m : std::fma(base, b.last_factor(row, key), -m)) + up;
        case Softmax::natural_exp2:
            return std::fma(score - m, log2e, up);
        case Softmax::raw_exp: {
            const float factor = b.last_factor(row, key);
            return std::fma(score, factor, -std::fma(m, factor, -up));
        }
        case Softmax::raw_exp2: {
            const float factor = b.last_factor_log2(row, key);
            return std::fma(score, factor, -std::fma(m, factor, -up));
        }
        case Softmax::raw_exp2_unfused: {
            const float factor = b.last_factor_log2(row, key);
            return score * factor - std::fma(m, factor, -up);
        }
        case Softmax::raw_with_base_two_max:
            return std::fma(score, b.last_factor_log2(row, key), -m) + up;
        case Softmax::natural_with_base_two_max:
            return std::fma(score, log2e, -m) + up;
    }
    return 0;
}

/// A maximum starts at the row's first score rather than at -inf: NaN that comes first is taken.
float max_of_row(const MaxStep& step) {
    const Block& b = step.b;
    const std::int64_t row = b.first_row() + step.row;
    const float before = step.before.at(step.row, 0);
    float most = held_max(b, step.scores.at(step.row, 0), row, b.first_key());
    for (std::int64_t j = 1; j < step.scores.cols; ++j)
        most = std::max(most, held_max(b, step.scores.at(step.row, j), row, b.first_key() + j));
    return chosen_max(b, before, std::max(before, most), row);
}

Values next_max(const Block& b, const Tile& scores, const Tile& before) {
    Tile m(b.rows, 1);
    const auto max = b.at(&Points::max);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const MaxStep step{b, scores, before, i};
        m.at(i, 0) = max != nullptr ? max(step) : max_of_row(step);
    }
    return {std::move(m)};
}

/// What P takes in place of V.
float descale_in_p(const Block& b, std::int64_t key) {
    return b.a.p_descale == DescaleInP::none ? 1 : b.in.side.descale_v.at(b.id.batch, b.head_kv(), key);
}

Probabilities probabilities_of(const Block& b, const Scores& scores, const Tile& before, const Tile& m) {
    const std::int64_t keys = scores.held.cols;
    Probabilities p{Tile(b.rows, keys), Tile(b.rows, keys), Tile(b.rows, keys), Tile(b.rows, keys)};
    const auto scale = float(b.a.p_scale);
    const auto changed = b.at(&Points::probability);
    const auto cast = b.at(&Points::cast);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
            const ProbabilityStep step{b, scores, before, m, i, j};
            const float value = changed != nullptr ? changed(step) : probability(step);
            const float scaled = b.a.p_scale_in_exponent ? value : value * scale;
            const float whole = scaled * descale_in_p(b, b.first_key() + j);
            p.value.at(i, j) = value;
            p.scaled.at(i, j) = scaled;
            p.operand.at(i, j) =
                cast != nullptr ? cast(b, whole) : rounded(b.a.p_operand, whole, Overflow::saturate);
            p.dumped.at(i, j) = b.a.dumps_cast_p                        ? p.operand.at(i, j)
                                : b.a.p_descale == DescaleInP::recorded ? whole
                                                                        : scaled;
        }
    }
    return p;
}

Values next_sums(const Block& b, const Tile& before_m, const Tile& before, const Probabilities& p,
                 const std::vector<float>& factors) {
    Tile l(b.rows, b.p.l_lanes);
    const auto sum = b.at(&Points::sum);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const std::vector<float> added = summands(b, p, i);
        for (std::int64_t lane = 0; lane < b.p.l_lanes; ++lane) {
            const SumStep step{b, before_m, before, p, factors, i, lane};
            l.at(i, lane) = sum != nullptr ? sum(step) : next_l(step, step.l(), step.factor(), added);
        }
    }
    return {std::move(l)};
}

Values next_accumulator(const Block& b, const Tile& before, const Probabilities& p, const Tile& v,
                        const std::vector<float>& factors) {
    const auto p_operand = b.at(&Points::p_operand);
    const auto v_operand = b.at(&Points::v_operand);
    const Tile p_taken = p_operand != nullptr ? p_operand(b, p) : p.operand;
    const Tile v_taken = v_operand != nullptr ? v_operand(b, v) : v;
    Tile acc(b.rows, v.cols);
    const auto changed = b.at(&Points::acc);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t d = 0; d < v.cols; ++d) {
            const AccStep step{b, before, p_taken, v_taken, factors, i, d};
            acc.at(i, d) = changed != nullptr ? changed(step) : next_acc(step, step.acc(), step.factor());
        }
    }
    return {std::move(acc)};
}

}  // namespace

float held_max(const Block& b, float score, std::int64_t row, std::int64_t key) {
    if (b.a.softmax == Softmax::raw_with_base_two_max) return score * b.last_factor_log2(row, key);
    if (b.a.softmax == Softmax::natural_with_base_two_max) return score * log2e;
    return score;
}

float chosen_max(const Block& b, float before, float now, std::int64_t row) {
    if (b.a.stale_threshold == 0 || before == -infinity) return now;
    auto threshold = float(b.a.stale_threshold);
    if (max_is_base_two(b.a.softmax)) threshold *= log2e;
    const float rise = now - before;
    const float in_units = is_raw(b.a.softmax) ? rise * b.last_factor(row, 0) : rise;
    return in_units <= threshold ? before : now;
}

float exponential(const Block& b, float x) {
    const bool natural = takes_natural(b.a.softmax);
    if (b.a.exp_error > 0) return polynomial_exp2(natural ? x * log2e : x);
    // __expf multiplies with log2(e) and takes the exponential to the base two.
    const bool fast = b.a.softmax == Softmax::natural_fast;
    const float y = fast ? x * log2e : x;
    if (!b.a.worst_exp) return natural && !fast ? std::exp(y) : std::exp2(y);
    return off_by_two_ulp(natural && !fast ? std::exp(double(y)) : std::exp2(double(y)), y);
}

float log_p_scale(const Block& b) {
    if (!b.a.p_scale_in_exponent) return 0;
    return float(takes_natural(b.a.softmax) ? std::log(b.a.p_scale) : std::log2(b.a.p_scale));
}

float exponent(const ProbabilityStep& step, float m) {
    const Block& b = step.b;
    return argument(b, step.scores.base.at(step.row, step.col), step.score(), m, b.first_row() + step.row,
                    b.first_key() + step.col);
}

float probability(const ProbabilityStep& step) {
    if (step.score() == -infinity) return 0;
    return exponential(step.b, exponent(step, step.m.at(step.row, 0)));
}

std::vector<float> summands(const Block& b, const Probabilities& p, std::int64_t row) {
    const auto scale = float(b.a.p_scale);
    std::vector<float> added;
    for (std::int64_t j = 0; j < p.value.cols; ++j) {
        const float scaled = b.a.l_sums_cast_p ? p.operand.at(row, j) : p.scaled.at(row, j);
        const bool contains_scale = b.a.p_scale_in_exponent || b.a.l_sums_cast_p;
        added.push_back(b.a.l_scaled ? scaled : contains_scale ? scaled / scale : p.value.at(row, j));
    }
    return added;
}

/// The threads of a row, or one lane's own columns one after the other.
float next_l(const SumStep& step, float before, float factor, std::span<const float> p) {
    const Block& b = step.b;
    if (b.p.l_lanes == 1) return std::fma(before, factor, sum_over_lanes(p, b.a.lanes));
    float sum = before * factor;
    for (std::size_t j = 0; j < p.size(); ++j) {
        if (std::int64_t(j) / b.p.l_lane_columns % b.p.l_lanes == step.lane) sum += p[j];
    }
    return sum;
}

float next_acc(const AccStep& step, float before, float factor) {
    const Block& b = step.b;
    const std::span<const float> p = step.p.row(step.row);
    const float* v = step.v.values.data() + step.col;
    const bool half = b.p.dtype_acc == Dtype::f16;
    const auto kept = [&](float value) { return half ? to_half(value) : value; };
    const float unscaled = b.a.acc_scaled ? 1 : float(1 / b.a.p_scale);
    float joins_with = b.a.acc_dequantised ? unscaled * b.v_descale() : unscaled;
    if (const auto changed = b.at(&Points::joins_with)) joins_with = changed(b, joins_with);
    if (!b.a.separate_pv && joins_with == 1 && (half || !is_half(b.a.pv_sum)))
        return kept(sum_of_products(b.a.pv_sum, kept(before * factor), p, v, step.v.cols));
    const float sum = sum_of_products(b.a.pv_sum, 0, p, v, step.v.cols);
    return kept(std::fma(before, factor, sum * joins_with));
}

State initial_state(const Block& b, bool first_split) {
    State state{Tile(b.rows, 1, -infinity), Tile(b.rows, b.p.l_lanes), Tile(b.rows, b.p.head_dim_v)};
    if (b.p.sink == AttentionSink::first && first_split) {
        std::ranges::fill(state.m.values, in_units_of_max(b, b.in.side.sink[std::size_t(b.id.head)]));
        std::ranges::fill(state.l.values, b.a.l_scaled ? float(b.a.p_scale) : 1.0f);
    }
    if (const auto changed = b.at(&Points::initial)) changed(b, state);
    return state;
}

Probabilities softmax_step(Block& b, const Scores& scores, const Tile& v, bool first_split,
                           std::optional<State>& state) {
    const auto before = [&](const Block& block) {
        return state ? *state : initial_state(block, first_split);
    };
    const auto factors = [&](const Block& block, const State& old, const Tile& m) {
        std::vector<float> all;
        for (std::int64_t i = 0; i < m.rows; ++i)
            all.push_back(rescale_factor(block, old.m.at(i, 0), m.at(i, 0)));
        return all;
    };
    const Tile m = take(b, Stage::m, [&](const Block& block) {
                       return next_max(block, scores.held, before(block).m);
                   }).dumped;
    Probabilities p = take(
        b, Stage::p, [&](const Block& block) { return probabilities_of(block, scores, before(block).m, m); });
    Tile l = take(b, Stage::l, [&](const Block& block) {
                 const State old = before(block);
                 return next_sums(block, old.m, old.l, p, factors(block, old, m));
             }).dumped;
    Tile acc = take(b, Stage::acc, [&](const Block& block) {
                   const State old = before(block);
                   return next_accumulator(block, old.acc, p, v, factors(block, old, m));
               }).dumped;
    state = State{m, std::move(l), std::move(acc)};
    return p;
}

float rescale_factor(const Block& b, float before, float now) {
    if (before == -infinity) return 0;
    const float fall = before - now;
    switch (b.a.softmax) {
        case Softmax::natural_exp2:
            return exponential(b, fall * log2e);
        case Softmax::raw_exp:
            return exponential(b, fall * b.last_factor(b.first_row(), 0));
        case Softmax::raw_exp2:
        case Softmax::raw_exp2_unfused:
            return exponential(b, fall * b.last_factor_log2(b.first_row(), 0));
        default:
            return exponential(b, fall);
    }
}

float in_units_of_max(const Block& b, float value) {
    if (max_is_base_two(b.a.softmax)) return value * log2e;
    return is_raw(b.a.softmax) ? b.quotient(value, b.last_factor(b.first_row(), 0)) : value;
}

}  // namespace tilescope::test
