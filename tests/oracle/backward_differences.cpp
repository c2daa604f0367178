#include "tests/oracle/backward_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace tilescope::test {

namespace {

/// A power of two, so that inputs can move by it exactly.
constexpr float step = 0x1p-20f;

/// Some query rows of one head.
struct Rows {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t first = 0;
    std::int64_t last = 0;
};

Rows rows_of(const AttentionCall& call, std::int64_t batch, std::int64_t head) {
    return {batch, head, 0, rows_of_entry(call, batch)};
}

Real dout_at(const std::vector<float>& dout, const Problem& p, const Rows& rows, std::int64_t row,
             std::int64_t d) {
    const BackwardShape shape{p.heads, p.seqlen_q, p.head_dim_v};
    return Real(dout[shape.index(rows.batch, rows.head, row, d)]);
}

/// sum(o * dout) over the rows, and how far off it may be.
Defined loss(const AttentionCall& forward, const std::vector<float>& dout, const Rows& rows) {
    const Problem& p = forward.problem;
    Defined sum;
    for (std::int64_t row = rows.first; row < rows.last; ++row) {
        const DefinedRow defined = define_row(forward, rows.batch, rows.head, row);
        // Each sum over the keys, and then all of them.
        const Real roundings = roundings_of_weight(forward, defined) + Real(defined.s.size()) + 4 +
                               Real((rows.last - rows.first) * p.head_dim_v);
        for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
            const Real factor = dout_at(dout, p, rows, row, d);
            sum.value += factor * defined.o[std::size_t(d)].value;
            sum.magnitude +=
                unit_roundoff_of_real * roundings * std::abs(factor) * defined.o[std::size_t(d)].magnitude;
        }
    }
    return sum;
}

struct Difference {
    Real value = 0;
    Real error = 0;
};

/// Slope of the loss by one input, whose third derivative is at most `third`. The difference is off by
/// step^2 / 6 of that, and by the errors of the two losses over 2 step.
Difference central_difference(AttentionCall& forward, const std::vector<float>& dout, const Rows& rows,
                              float& input, Real third) {
    const float before = input;
    input = before + step;
    const Defined above = loss(forward, dout, rows);
    input = before - step;
    const Defined below = loss(forward, dout, rows);
    input = before;
    const Real h = Real(step);
    return {(above.value - below.value) / (2 * h),
            h * h / 6 * third + (above.magnitude + below.magnitude) / (2 * h)};
}

bool can_move(float input) {
    return Real(input + step) == Real(input) + Real(step) && Real(input - step) == Real(input) - Real(step);
}

/// Largest |dout_i v_j| of row i: the loss of a row is the mean of dout_i v_j under its weights.
Real largest_term(const AttentionCall& forward, const std::vector<float>& dout, const Rows& rows,
                  std::int64_t row) {
    Real largest = 0;
    for (std::int64_t key = 0; key < keys_of_entry(forward, rows.batch); ++key) {
        const std::vector<Real> v = define_operand(forward, Stage::v, rows.batch, rows.head, key);
        Real term = 0;
        for (std::size_t d = 0; d < v.size(); ++d)
            term += v[d] * dout_at(dout, forward.problem, rows, row, std::int64_t(d));
        largest = std::max(largest, std::abs(term));
    }
    return largest;
}

/// Bound of the third derivative of sum_j p_j w_j, |w| <= w_most, where the scores before the cap change at
/// rates of at most `rate`. It is k4(w,s',s',s') + 3 k3(w,s',s'') + k2(w,s'''), the cumulants under p; with
/// |w - E w| <= 2 w_most and the like they are at most 64, 8 and 4 times the product of the largest values.
/// The cap's second and third derivatives are at most 4 / (3 sqrt(3)) / cap and 2 / cap^2.
Real third_derivative(const Problem& problem, Real w_most, Real rate) {
    const Real cubed = w_most * rate * rate * rate;
    if (problem.logits_soft_cap == 0) return 64 * cubed;
    const Real cap = Real(problem.logits_soft_cap);
    return cubed * (64 + 3 * 8 * 0.77L / cap + 4 * 2 / (cap * cap));
}

/// A call, its definition and its forward pass, whose inputs move.
struct Differences {
    const BackwardCall& call;
    const DefinedBackward& defined;
    AttentionCall forward;
    DifferenceCounts& counts;

    const Problem& problem() const { return forward.problem; }

    void expect(Stage stage, std::size_t index, Real factor, const Difference& difference) {
        const Real value = (defined.value.*backward_tensor(stage).elements).at(index) * factor;
        EXPECT_TRUE(std::abs(value - difference.value) <= difference.error)
            << stage_info(stage).name << " " << index << ": " << value << ", by differences "
            << difference.value << " +- " << difference.error;
        ++counts.compared;
        counts.telling += std::abs(value) > 1000 * difference.error;
    }

    /// Largest rate of the row's scores by an element of the raw q.
    Real rate_by_q(const Rows& rows, std::int64_t d, Real descale) const {
        Real largest = 0;
        for (std::int64_t key = 0; key < keys_of_entry(forward, rows.batch); ++key) {
            const std::vector<Real> k = define_operand(forward, Stage::k, rows.batch, rows.head, key);
            largest = std::max(largest, std::abs(k[std::size_t(d)]));
        }
        return Real(problem().sm_scale) * descale * largest;
    }

    /// What an element of an operand is multiplied with.
    static Real factor_of(const Descale& descale, std::int64_t batch, std::int64_t head, std::int64_t row,
                          std::int64_t column) {
        return Real(descale.at(batch, head, row)) * Real(descale.of_channel(batch, head, column));
    }

    void dq(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t d) {
        const Real descale = factor_of(forward.inputs.side.descale_q, batch, head, row, d);
        const Rows rows{batch, head, row, row + 1};
        float& q = forward.inputs.q_at(problem(), batch, head, row, d);
        if (!can_move(q)) return;
        const Real third = third_derivative(problem(), largest_term(forward, call.dout, rows, row),
                                            rate_by_q(rows, d, descale));
        const std::size_t index = shape_of(backward_tensor(Stage::dq), problem()).index(batch, head, row, d);
        expect(Stage::dq, index, descale, central_difference(forward, call.dout, rows, q, third));
    }

    std::int64_t head_kv_of(std::int64_t head_of_dk) const {
        if (!problem().dkv_per_head) return head_of_dk;
        const bool interleaved = problem().head_grouping == HeadGrouping::interleaved;
        return interleaved ? head_of_dk % problem().heads_kv
                           : head_of_dk / (problem().heads / problem().heads_kv);
    }

    /// Slope of the losses of the query heads that add up to a head of dk and dv; third(rows) is of one.
    template <class Third>
    Difference slope_of_group(std::int64_t batch, std::int64_t head_of_dk, float& input, Third third) {
        const std::int64_t group = problem().dkv_per_head ? 1 : problem().heads / problem().heads_kv;
        Difference sum;
        const bool interleaved = group > 1 && problem().head_grouping == HeadGrouping::interleaved;
        for (std::int64_t i = 0; i < group; ++i) {
            const std::int64_t head =
                interleaved ? head_of_dk + i * problem().heads_kv : head_of_dk * group + i;
            const Rows rows = rows_of(forward, batch, head);
            const Difference one = central_difference(forward, call.dout, rows, input, third(rows));
            sum = {sum.value + one.value, sum.error + one.error};
        }
        return sum;
    }

    void dk(std::int64_t batch, std::int64_t head_of_dk, std::int64_t key, std::int64_t d) {
        const std::int64_t head_kv = head_kv_of(head_of_dk);
        const Real descale = factor_of(forward.inputs.side.descale_k, batch, head_kv, key, d);
        float& k = forward.inputs.k_at(problem(), batch, head_kv, key, d);
        if (!can_move(k)) return;
        const auto third = [&](const Rows& rows) {
            Real sum = 0;
            for (std::int64_t row = 0; row < rows.last; ++row) {
                const Real q = define_operand(forward, Stage::q, batch, rows.head, row)[std::size_t(d)];
                sum += third_derivative(problem(), largest_term(forward, call.dout, rows, row),
                                        std::abs(Real(problem().sm_scale) * descale * q));
            }
            return sum;
        };
        const BackwardShape shape = shape_of(backward_tensor(Stage::dk), problem());
        expect(Stage::dk, shape.index(batch, head_of_dk, key, d), descale,
               slope_of_group(batch, head_of_dk, k, third));
    }

    /// The loss is linear in v.
    void dv(std::int64_t batch, std::int64_t head_of_dk, std::int64_t key, std::int64_t d) {
        const std::int64_t head_kv = head_kv_of(head_of_dk);
        const Real descale = factor_of(forward.inputs.side.descale_v, batch, head_kv, key, d);
        float& v = forward.inputs.v_at(problem(), batch, head_kv, key, d);
        if (!can_move(v)) return;
        const BackwardShape shape = shape_of(backward_tensor(Stage::dv), problem());
        expect(Stage::dv, shape.index(batch, head_of_dk, key, d), descale,
               slope_of_group(batch, head_of_dk, v, [](const Rows&) { return Real(0); }));
    }

    /// A bias is added after the cap, so the slope by it lacks the cap's derivative.
    void ds(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t key) {
        const Rows rows{batch, head, row, row + 1};
        const std::size_t index =
            shape_of(backward_tensor(Stage::ds), problem()).index(batch, head, row, key);
        float& bias = forward.inputs.bias.values.at(index);
        if (!can_move(bias)) return;
        const Real third = 64 * largest_term(forward, call.dout, rows, row);
        const Difference slope = central_difference(forward, call.dout, rows, bias, third);
        const Units& units = call.attention.units;
        Real factor = Real(units.ds_scale);
        if (problem().logits_soft_cap != 0 && units.ds_capped) {
            const DefinedScore score = define_scores(forward, batch, head, row)[std::size_t(key)];
            const Real share = score.capped / Real(problem().logits_soft_cap);
            factor *= 1 - share * share;
        }
        expect(Stage::ds, index, 1, {slope.value * factor, slope.error * factor});
    }
};

/// The call's bias, or none, in the sizes of the problem.
Bias whole_bias(const AttentionCall& call) {
    const Problem& p = call.problem;
    Bias whole{p.batch, p.heads, p.seqlen_q, p.seqlen_kv, {}};
    const std::int64_t cells = p.seqlen_q * p.seqlen_kv;
    for (std::int64_t i = 0; i < p.batch * p.heads * cells; ++i) {
        const auto at = [&](const Bias& bias) {
            return bias.at(i / (p.heads * cells), i / cells % p.heads, i / p.seqlen_kv % p.seqlen_q,
                           i % p.seqlen_kv);
        };
        whole.values.push_back(call.inputs.bias.empty() ? 0 : at(call.inputs.bias));
    }
    return whole;
}

}  // namespace

AttentionCall forward_of(const BackwardCall& call) {
    AttentionCall forward{call.attention.problem, {}, call.attention.inputs};
    forward.problem.block_n = forward.problem.seqlen_kv;
    return forward;
}

Real roundings_of_weight(const AttentionCall& forward, const DefinedRow& row) {
    Real score = 0;
    for (const Defined& s : row.s) score = std::max(score, s.magnitude);
    return 2 * Real(forward.problem.head_dim + 10) * score + Real(row.s.size()) + 8;
}

void expect_differences(const BackwardCall& call, std::int64_t count, Random& random,
                        DifferenceCounts& counts) {
    const DefinedBackward defined = define_backward(call);
    Differences differences{call, defined, forward_of(call), counts};
    differences.forward.inputs.bias = whole_bias(call.attention);
    constexpr std::pair<Stage, void (Differences::*)(std::int64_t, std::int64_t, std::int64_t, std::int64_t)>
        checks[] = {{Stage::ds, &Differences::ds},
                    {Stage::dq, &Differences::dq},
                    {Stage::dk, &Differences::dk},
                    {Stage::dv, &Differences::dv}};
    for (const auto& [stage, check] : checks) {
        const BackwardTensor& tensor = backward_tensor(stage);
        std::int64_t elements = 0;
        for_each_element(tensor, call.attention, [&](auto...) { ++elements; });
        for_each_element(tensor, call.attention, [&](auto batch, auto head, auto row, auto column) {
            if (std::int64_t(random() % std::uint64_t(elements)) < count)
                (differences.*check)(batch, head, row, column);
        });
    }
}

}  // namespace tilescope::test
