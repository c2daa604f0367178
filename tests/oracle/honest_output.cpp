#include "tests/oracle/honest_output.h"

#include <algorithm>
#include <numeric>

#include "tests/oracle/honest_points.h"

namespace tilescope::test {

namespace {

float empty_value(EmptyRow empty) {
    switch (empty) {
        case EmptyRow::zero:
            return 0;
        case EmptyRow::minus_infinity:
            return -infinity;
        case EmptyRow::plus_infinity:
            return infinity;
        case EmptyRow::nan:
            return nan;
    }
    return 0;
}

float l_scale(const Block& b) {
    return b.a.l_scaled ? float(b.a.p_scale) : 1.0f;
}

float divided(const Block& b, float value, float by) {
    if (const auto changed = b.at(&Points::divided)) return changed(b, value, by);
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

/// No score is so low: a row whose maximum is has seen the number alone that stands for hidden scores.
constexpr float saw_no_score = -1e5f;

EndedRow row_of(const Block& b, const State& state, std::int64_t i) {
    const auto acc = state.acc.row(i);
    const bool masks_with_number = b.a.masked_s != -infinity;
    if (masks_with_number && b.a.guards_rows_without_keys && state.m.at(i, 0) < saw_no_score)
        return {-infinity, 0, std::vector<float>(acc.size(), 0.0f)};
    return {state.m.at(i, 0), sum_of_tree(state.l.row(i)), {acc.begin(), acc.end()}};
}

/// A sink that comes last: one more term of l, or first the new maximum.
void join_sink(const Block& b, EndedRow& row) {
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
std::vector<float> normalised(const Block& b, const EndedRow& row) {
    const float acc_scale = b.a.acc_scaled ? float(b.a.p_scale) : 1.0f;
    float scale = l_scale(b) == acc_scale ? 1 : l_scale(b) / acc_scale;
    if (const auto changed = b.at(&Points::o_scale)) scale = changed(b, scale);
    if (!b.a.acc_dequantised) scale *= b.v_descale();
    std::vector<float> o = row.acc;
    for (float& value : o) {
        if (scale != 1) value *= scale;
        value = divided(b, value, row.l);
    }
    return o;
}

/// o and lse of a kernel without splits.
RowOutput output_of(const Block& b, const EndedRow& own) {
    EndedRow whole = own;
    if (b.p.sink == AttentionSink::last) join_sink(b, whole);
    RowOutput out;
    if (whole.l == 0) {
        out.o.assign(own.acc.size(), empty_value(b.a.o_empty_row));
    } else {
        out.o = normalised(b, whole);
    }
    const EndedRow& counted = b.a.lse_includes_sink ? whole : own;
    out.lse = counted.l == 0 ? empty_value(b.a.lse_empty_row) : log_sum_exp(b, counted.m, counted.l);
    if (const auto changed = b.at(&Points::output)) changed(b, whole, out);
    return out;
}

/// What the first pass of a split KV kernel leaves: normalised o and lse in float32.
RowOutput partial_of(const Block& b, const EndedRow& row) {
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
RowOutput combined(const Block& b, std::vector<RowOutput> parts) {
    const bool base_two = b.a.lse_log_base == LogBase::two;
    if (const auto changed = b.at(&Points::splits)) changed(b, parts);
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
        if (const auto changed = b.at(&Points::weight)) weight = changed(b, weight, std::ssize(parts));
        for (std::size_t d = 0; d < out.o.size(); ++d) out.o[d] = std::fma(weight, part.o[d], out.o[d]);
    }
    return out;
}

RowOutput output_of_row(const Block& b, const std::vector<State>& splits, std::int64_t i) {
    if (splits.size() == 1) return output_of(b, row_of(b, splits[0], i));
    std::vector<RowOutput> parts;
    for (const State& split : splits) parts.push_back(partial_of(b, row_of(b, split, i)));
    return combined(b, std::move(parts));
}

Values output_tile(const Block& b, const std::vector<State>& splits) {
    Tile o(b.rows, b.p.head_dim_v);
    for (std::int64_t i = 0; i < b.rows; ++i) {
        const RowOutput row = output_of_row(b, splits, i);
        for (std::int64_t d = 0; d < o.cols; ++d) o.at(i, d) = rounded(b.p.dtype_o, row.o[std::size_t(d)]);
    }
    return {std::move(o)};
}

Values lse_tile(const Block& b, const std::vector<State>& splits) {
    Tile lse(b.rows, 1);
    for (std::int64_t i = 0; i < b.rows; ++i) lse.at(i, 0) = output_of_row(b, splits, i).lse;
    return {std::move(lse)};
}

}  // namespace

void write_outputs(Block& b, const std::vector<State>& splits) {
    take(b, Stage::o, [&](const Block& block) { return output_tile(block, splits); });
    take(b, Stage::lse, [&](const Block& block) { return lse_tile(block, splits); });
}

}  // namespace tilescope::test
