#include "tests/oracle/honest_softmax.h"

#include <algorithm>

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

/// A held score in the units of m.
float held_max(const Block& b, float score, std::int64_t row, std::int64_t key) {
    if (b.a.softmax == Softmax::raw_with_base_two_max) return score * b.last_factor_log2(row, key);
    if (b.a.softmax == Softmax::natural_with_base_two_max) return score * log2e;
    return score;
}

/// ln p_scale to the base that exponential() takes, where it is in the exponent.
float offset(const Block& b) {
    if (!b.a.p_scale_in_exponent) return 0;
    return float(takes_natural(b.a.softmax) ? std::log(b.a.p_scale) : std::log2(b.a.p_scale));
}

/// The argument of the exponential, to the base that exponential() takes.
float argument(const Block& b, float base, float score, float m, std::int64_t row, std::int64_t key) {
    const float up = offset(b);
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

float exponential(const Block& b, float x) {
    const bool natural = takes_natural(b.a.softmax);
    if (b.a.exp_error > 0) return polynomial_exp2(natural ? x * log2e : x);
    // __expf multiplies with log2(e) and takes the exponential to the base two.
    const bool fast = b.a.softmax == Softmax::natural_fast;
    const float y = fast ? x * log2e : x;
    if (!b.a.worst_exp) return natural && !fast ? std::exp(y) : std::exp2(y);
    return off_by_two_ulp(natural && !fast ? std::exp(double(y)) : std::exp2(double(y)), y);
}

float probability(Block& b, const Scores& scores, float m, std::int64_t i, std::int64_t j) {
    const float score = scores.held.at(i, j);
    if (score == -infinity) return 0;
    const std::int64_t row = b.first_row() + i;
    const std::int64_t key = b.first_key() + j;
    const float x = argument(b, scores.base.at(i, j), score, m, row, key);
    const float p = exponential(b, x);
    return b.faulty(Mistake::p_clamped, i) ? b.changed(p, exponential(b, std::max(x, -1.0f)), row, key) : p;
}

/// The new maximum, or the old one where that may stay.
float chosen_max(const Block& b, float before, float now, std::int64_t row) {
    if (b.a.stale_threshold == 0 || before == -infinity) return now;
    auto threshold = float(b.a.stale_threshold);
    if (max_is_base_two(b.a.softmax)) threshold *= log2e;
    const float rise = now - before;
    const float in_units = is_raw(b.a.softmax) ? rise * b.last_factor(row, 0) : rise;
    return in_units <= threshold ? before : now;
}

void compute_max(Block& b, const Tile& scores, State& state) {
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const std::int64_t row = b.first_row() + i;
        const float before = state.m.at(i, 0);
        const auto max_of = [&](std::int64_t cols) {
            float most = held_max(b, scores.at(i, 0), row, b.first_key());
            for (std::int64_t j = 1; j < cols; ++j)
                most = std::max(most, held_max(b, scores.at(i, j), row, b.first_key() + j));
            return chosen_max(b, before, std::max(before, most), row);
        };
        const float healthy = max_of(scores.cols);
        const float half = max_of(std::max<std::int64_t>(1, scores.cols / 2));
        state.m.at(i, 0) =
            b.faulty(Mistake::max_of_half_tile, i) ? b.changed(healthy, half, row, 0) : healthy;
    }
    b.record(Stage::m, state.m);
}

/// P as l adds it up, scaled or not, before its cast; as it is dumped; and as it multiplies V.
struct Probabilities {
    Tile summed;
    Tile scaled;
    Tile operand;
};

Probabilities compute_p(Block& b, const Scores& scores, const Tile& m) {
    const std::int64_t keys = scores.held.cols;
    Probabilities p{Tile(b.rows, keys), Tile(b.rows, keys), Tile(b.rows, keys)};
    const auto scale = float(b.a.p_scale);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t j = 0; j < keys; ++j) {
            const float value = probability(b, scores, m.at(i, 0), i, j);
            const float scaled = b.a.p_scale_in_exponent ? value : value * scale;
            const float operand = decode(b.a.p_operand, encode(b.a.p_operand, scaled, Overflow::saturate));
            p.scaled.at(i, j) = scaled;
            p.operand.at(i, j) = operand;
            const float added = b.a.l_sums_cast_p ? operand : scaled;
            p.summed.at(i, j) = b.a.l_scaled                                   ? added
                                : b.a.p_scale_in_exponent || b.a.l_sums_cast_p ? added / scale
                                                                               : value;
        }
    }
    b.record(Stage::p, b.a.dumps_cast_p ? p.operand : p.scaled);
    return p;
}

/// l of one lane: the threads of a row, or its own columns one after the other.
float next_l(const Block& b, float before, float factor, std::span<const float> p, std::int64_t lane) {
    if (b.p.l_lanes == 1) return std::fma(before, factor, sum_over_lanes(p, b.a.lanes));
    float sum = before * factor;
    for (std::size_t j = 0; j < p.size(); ++j) {
        if (std::int64_t(j) / b.p.l_lane_columns % b.p.l_lanes == lane) sum += p[j];
    }
    return sum;
}

void compute_l(Block& b, const Tile& summed, const std::vector<float>& factors, State& state) {
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t lane = 0; lane < b.p.l_lanes; ++lane) {
            float& l = state.l.at(i, lane);
            const float healthy = next_l(b, l, factors[std::size_t(i)], summed.row(i), lane);
            l = b.faulty(Mistake::l_not_rescaled, i)
                    ? b.changed(healthy, next_l(b, l, 1, summed.row(i), lane), b.first_row() + i, lane)
                    : healthy;
        }
    }
    b.record(Stage::l, state.l);
}

/// acc of one element after the tile.
float next_acc(const Block& b, float before, float factor, std::span<const float> p, const float* v,
               std::int64_t stride) {
    const bool half = b.p.dtype_acc == Dtype::f16;
    const auto kept = [&](float value) { return half ? to_half(value) : value; };
    const float unscaled = b.a.acc_scaled ? 1 : float(1 / b.a.p_scale);
    const float joins_with = b.a.acc_dequantised ? unscaled * b.v_descale() : unscaled;
    if (!b.a.separate_pv && joins_with == 1 && (half || !is_half(b.a.pv_sum)))
        return kept(sum_of_products(b.a.pv_sum, kept(before * factor), p, v, stride));
    const float sum = sum_of_products(b.a.pv_sum, 0, p, v, stride);
    return kept(std::fma(before, factor, sum * joins_with));
}

void compute_acc(Block& b, const Tile& operand, const Tile& v, const std::vector<float>& factors,
                 State& state) {
    for (std::int64_t i = 0; i < b.rows; ++i) {
        for (std::int64_t d = 0; d < v.cols; ++d) {
            float& acc = state.acc.at(i, d);
            const auto next = [&](float factor) {
                return next_acc(b, acc, factor, operand.row(i), v.values.data() + d, v.cols);
            };
            const float healthy = next(factors[std::size_t(i)]);
            acc = b.faulty(Mistake::acc_not_rescaled, i) ? b.changed(healthy, next(1), b.first_row() + i, d)
                                                         : healthy;
        }
    }
    b.record(Stage::acc, state.acc);
}

}  // namespace

State initial_state(const Block& b, bool first_split) {
    State state{Tile(b.rows, 1, -infinity), Tile(b.rows, b.p.l_lanes), Tile(b.rows, b.p.head_dim_v)};
    if (b.p.sink != AttentionSink::first || !first_split) return state;
    std::ranges::fill(state.m.values, in_units_of_max(b, b.in.side.sink[std::size_t(b.id.head)]));
    std::ranges::fill(state.l.values, b.a.l_scaled ? float(b.a.p_scale) : 1.0f);
    return state;
}

void softmax_step(Block& b, const Scores& scores, const Tile& v, State& state) {
    const Tile before = state.m;
    compute_max(b, scores.held, state);
    const Probabilities p = compute_p(b, scores, state.m);
    std::vector<float> factors;
    for (std::int64_t i = 0; i < b.rows; ++i)
        factors.push_back(rescale_factor(b, before.at(i, 0), state.m.at(i, 0)));
    compute_l(b, p.summed, factors, state);
    compute_acc(b, p.operand, v, factors, state);
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
