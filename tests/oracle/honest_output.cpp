#include "tests/oracle/honest_output.h"

#include <algorithm>
#include <numeric>

#include "tests/oracle/honest_softmax.h"

namespace tilescope::test {

namespace {

/// A row at its end: after its last tile, or normalised.
struct Row {
    float m = -infinity;
    float l = 0;
    std::vector<float> acc;
};

struct RowOutput {
    float lse = -infinity;
    std::vector<float> o;
};

float empty_value(EmptyRow empty) {
    switch (empty) {
        case EmptyRow::zero:
            return 0;
        case EmptyRow::minus_infinity:
            return -infinity;
        case EmptyRow::plus_infinity:
            return infinity;
        case EmptyRow::nan:
            return std::numeric_limits<float>::quiet_NaN();
    }
    return 0;
}

float l_scale(const Block& b) {
    return b.a.l_scaled ? float(b.a.p_scale) : 1.0f;
}

float divided(const Block& b, float value, float by) {
    if (b.a.approximate) return off_by_two_ulp(double(value) / double(by), value);
    return b.quotient(value, by);
}

float logarithm(const Block& b, float value, bool base_two) {
    const double exact = base_two ? std::log2(double(value)) : std::log(double(value));
    if (!b.a.approximate) return float(exact);
    // __logf and __log2f: an absolute bound between 1/2 and 2, 3 and 2 ulp elsewhere.
    const bool near_one = value >= 0.5f && value <= 2;
    const double bound = base_two ? 0x1p-22 : std::exp2(-21.41);
    if (near_one) return float(exact + sign_from(value) * 0.9 * bound);
    return off_by_two_ulp(exact, value);
}

float log_sum_exp(const Block& b, float m, float scaled_l) {
    const bool base_two = b.a.lse_log_base == LogBase::two;
    const float l = l_scale(b) == 1 ? scaled_l : scaled_l * (1 / l_scale(b));
    switch (b.a.softmax) {
        case Softmax::base_two:
        case Softmax::raw_with_base_two_max:
        case Softmax::natural_with_base_two_max: {
            const float lse = m + logarithm(b, l, true);
            return base_two ? lse : lse * ln2;
        }
        case Softmax::raw_exp:
        case Softmax::raw_exp2:
        case Softmax::raw_exp2_unfused: {
            const std::int64_t row = b.first_row();
            return base_two ? m * b.last_factor_log2(row, 0) + logarithm(b, l, true)
                            : m * b.last_factor(row, 0) + logarithm(b, l, false);
        }
        default: {
            const float lse = m + logarithm(b, l, false);
            return base_two ? lse * log2e : lse;
        }
    }
}

Row row_of(const State& state, std::int64_t i) {
    const auto acc = state.acc.row(i);
    return {state.m.at(i, 0), sum_of_tree(state.l.row(i)), {acc.begin(), acc.end()}};
}

/// A sink that comes last: one more term of l, or first the new maximum.
void join_sink(const Block& b, Row& row) {
    const float sink = in_units_of_max(b, b.in.side.sink[std::size_t(b.id.head)]);
    const float term = row.m == -infinity ? 1.0f : rescale_factor(b, sink, row.m);
    if (row.m != -infinity && !b.a.sink_rescales && term < 1e6f) {
        row.l += term * l_scale(b);
        return;
    }
    const float most = std::max(row.m, sink);
    const float factor = rescale_factor(b, row.m, most);
    row.l = row.l * factor + rescale_factor(b, sink, most) * l_scale(b);
    for (float& acc : row.acc) acc *= factor;
    row.m = most;
}

/// acc / l, with what is left to do of descale_v and the scale of P.
std::vector<float> normalised(const Block& b, const Row& row, Mistake mistake = Mistake::none) {
    const float acc_scale = b.a.acc_scaled ? float(b.a.p_scale) : 1.0f;
    float scale =
        l_scale(b) == acc_scale || mistake == Mistake::p_scale_left_in_o ? 1 : l_scale(b) / acc_scale;
    if (!b.a.acc_dequantised) scale *= b.v_descale();
    std::vector<float> o = row.acc;
    for (float& value : o) {
        if (scale != 1) value *= scale;
        if (mistake == Mistake::o_not_normalised) continue;
        value = divided(b, value, row.l);
        if (mistake == Mistake::o_normalised_twice) value = divided(b, value, row.l);
    }
    return o;
}

/// o and lse of a kernel without splits.
RowOutput output_of(const Block& b, const Row& own, Mistake mistake) {
    Row whole = own;
    if (b.p.sink == AttentionSink::last) join_sink(b, whole);
    RowOutput out;
    if (whole.l == 0) {
        out.o.assign(own.acc.size(), empty_value(b.a.o_empty_row));
    } else {
        out.o = normalised(b, whole, mistake);
    }
    const Row& counted = b.a.lse_includes_sink ? whole : own;
    out.lse = counted.l == 0 ? empty_value(b.a.lse_empty_row) : log_sum_exp(b, counted.m, counted.l);
    return out;
}

/// What the first pass of a split KV kernel leaves: normalised o and lse in float32.
RowOutput partial_of(const Block& b, const Row& row) {
    if (row.l == 0) return {-infinity, std::vector<float>(row.acc.size(), 0.0f)};
    return {log_sum_exp(b, row.m, row.l), normalised(b, row)};
}

/// ln or log2 of the sum of the exponentials.
float total_of(const Block& b, const std::vector<float>& terms) {
    const bool base_two = b.a.lse_log_base == LogBase::two;
    const float most = *std::ranges::max_element(terms);
    if (most == -infinity) return most;
    float sum = 0;
    for (const float term : terms) sum += base_two ? std::exp2(term - most) : std::exp(term - most);
    return logarithm(b, sum, base_two) + most;
}

/// The second pass.
RowOutput combined(const Block& b, std::vector<RowOutput> parts, Mistake mistake) {
    const bool base_two = b.a.lse_log_base == LogBase::two;
    if (mistake == Mistake::split_dropped) parts.pop_back();
    std::vector<float> terms;
    for (const RowOutput& part : parts) terms.push_back(part.lse);
    const float of_keys = total_of(b, terms);
    if (b.p.sink == AttentionSink::last) {
        const float sink = b.in.side.sink[std::size_t(b.id.head)];
        terms.push_back(base_two ? sink * log2e : sink);
    }
    const float total = total_of(b, terms);
    RowOutput out{b.a.lse_includes_sink ? total : of_keys, std::vector<float>(parts[0].o.size(), 0.0f)};
    if (out.lse == -infinity) out.lse = empty_value(b.a.lse_empty_row);
    if (total == -infinity) {
        std::ranges::fill(out.o, empty_value(b.a.o_empty_row));
        return out;
    }
    for (const RowOutput& part : parts) {
        float weight = base_two ? std::exp2(part.lse - total) : std::exp(part.lse - total);
        if (mistake == Mistake::splits_averaged) weight = 1 / float(parts.size());
        for (std::size_t d = 0; d < out.o.size(); ++d) out.o[d] = std::fma(weight, part.o[d], out.o[d]);
    }
    return out;
}

RowOutput output_of_row(const Block& b, const std::vector<State>& splits, std::int64_t i, Mistake mistake) {
    if (splits.size() > 1) {
        std::vector<RowOutput> parts;
        for (const State& split : splits) parts.push_back(partial_of(b, row_of(split, i)));
        return combined(b, std::move(parts), mistake);
    }
    RowOutput out = output_of(b, row_of(splits[0], i), mistake);
    if (mistake == Mistake::lse_base_two) out.lse *= log2e;
    return out;
}

}  // namespace

void write_outputs(Block& b, const std::vector<State>& splits) {
    Tile o(b.rows, b.p.head_dim_v);
    Tile lse(b.rows, 1);
    const auto stored = [&](float value) { return decode(b.p.dtype_o, encode(b.p.dtype_o, value)); };
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const Mistake mistake = b.faulty(b.plant.mistake, i) ? b.plant.mistake : Mistake::none;
        const RowOutput healthy = output_of_row(b, splits, i, Mistake::none);
        const RowOutput got = output_of_row(b, splits, i, mistake);
        for (std::int64_t d = 0; d < o.cols; ++d) {
            o.at(i, d) = b.changed(stored(healthy.o[std::size_t(d)]), stored(got.o[std::size_t(d)]),
                                   b.first_row() + i, d);
        }
        lse.at(i, 0) = b.changed(healthy.lse, got.lse, b.first_row() + i, 0);
    }
    b.record(Stage::o, o);
    b.record(Stage::lse, lse);
}

}  // namespace tilescope::test
