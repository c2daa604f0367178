// The backward pass by its definition against central differences of the forward definition, and against what
// ties its stages to the forward pass.

#include "tests/oracle/definition_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/oracle/backward_differences.h"
#include "tests/oracle/backward_options.h"

namespace tilescope::test {
namespace {

using Options = std::vector<const Option*>;

constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();

/// What ties p, delta and dp to the forward pass: o = sum p v, and delta = sum p dp.
void expect_sums(const BackwardCall& call, std::int64_t& compared) {
    const DefinedBackward defined = define_backward(call);
    const AttentionCall forward = forward_of(call);
    const Problem& p = forward.problem;
    const BackwardShape cells = shape_of(backward_tensor(Stage::p), p);
    const BackwardShape dout{p.heads, p.seqlen_q, p.head_dim_v};
    const Real p_scale = Real(call.attention.units.p_scale);
    for_each_element(backward_tensor(Stage::delta), forward, [&](auto batch, auto head, auto row, auto) {
        const DefinedRow expected = define_row(forward, batch, head, row);
        if (!expected.sees_any) return;
        std::vector<Real> o(std::size_t(p.head_dim_v));
        Real delta = 0;
        for (std::size_t key = 0; key < expected.seen.size(); ++key) {
            const std::size_t cell = cells.index(batch, head, row, std::int64_t(key));
            const Real weight = defined.value.p[cell] / p_scale;
            const std::vector<Real> v = define_operand(forward, Stage::v, batch, head, std::int64_t(key));
            for (std::size_t d = 0; d < o.size(); ++d) o[d] += weight * v[d];
            delta += weight * defined.value.dp[cell];
        }
        // Both sides have the error of a weight, that of lse in its units, and sums.
        const Real roundings = 2 * roundings_of_weight(forward, expected) + 4 * std::abs(expected.lse.value) +
                               2 * Real(expected.seen.size()) + Real(p.head_dim_v) + 16;
        Real delta_magnitude = 0;
        for (std::size_t d = 0; d < o.size(); ++d) {
            EXPECT_TRUE(std::abs(o[d] - expected.o[d].value) <=
                        unit_roundoff_of_real * roundings * expected.o[d].magnitude)
                << o[d] << " in row " << row << ", by the forward pass " << expected.o[d].value;
            delta_magnitude += std::abs(Real(call.dout[dout.index(batch, head, row, std::int64_t(d))])) *
                               expected.o[d].magnitude;
        }
        const Real got = defined.value.delta[std::size_t((batch * p.heads + head) * p.seqlen_q + row)];
        EXPECT_TRUE(std::abs(got - delta) <= unit_roundoff_of_real * roundings * delta_magnitude)
            << "delta " << got << " in row " << row << ", by p and dp " << delta;
        ++compared;
    });
}

/// Rows that see nothing have no dq, keys that no row sees no dk and dv, and cells that are not seen no p and
/// ds. Returns how many such rows and keys there are.
std::int64_t expect_zeros(const BackwardCall& call) {
    const DefinedBackward defined = define_backward(call);
    const Problem& p = call.attention.problem;
    const BackwardShape cells = shape_of(backward_tensor(Stage::p), p);
    const BackwardShape dk = shape_of(backward_tensor(Stage::dk), p);
    std::vector<bool> key_is_seen(dk.index(p.batch, 0, 0, 0) / std::size_t(p.head_dim));
    const auto line_of_key = [&](std::int64_t batch, std::int64_t head, std::int64_t key) {
        return std::size_t((batch * dk.heads + head * dk.heads / p.heads) * p.seqlen_kv + key);
    };
    std::int64_t unseen = 0;
    for_each_element(
        backward_tensor(Stage::delta), call.attention, [&](auto batch, auto head, auto row, auto) {
            const DefinedRow expected = define_row(call.attention, batch, head, row);
            for (std::size_t key = 0; key < expected.seen.size(); ++key) {
                const std::size_t cell = cells.index(batch, head, row, std::int64_t(key));
                if (expected.seen[key]) {
                    key_is_seen[line_of_key(batch, head, std::int64_t(key))] = true;
                } else {
                    EXPECT_EQ(defined.value.p[cell], 0);
                    EXPECT_EQ(defined.value.ds[cell], 0);
                }
            }
            if (expected.sees_any) return;
            ++unseen;
            for (std::int64_t d = 0; d < p.head_dim; ++d) {
                const std::size_t line = std::size_t((batch * p.heads + head) * p.seqlen_q + row);
                EXPECT_EQ(defined.value.dq[line * std::size_t(p.head_dim) + std::size_t(d)], 0);
            }
        });
    for (const Stage stage : {Stage::dk, Stage::dv}) {
        const BackwardTensor& tensor = backward_tensor(stage);
        const BackwardShape shape = shape_of(tensor, p);
        for_each_element(tensor, call.attention, [&](auto batch, auto head, auto key, auto column) {
            if (key_is_seen[std::size_t((batch * shape.heads + head) * p.seqlen_kv + key)]) return;
            ++unseen;
            EXPECT_EQ((defined.value.*tensor.elements)[shape.index(batch, head, key, column)], 0);
        });
    }
    return unseen;
}

class Alone : public ::testing::TestWithParam<std::size_t> {
 protected:
    Options options() const { return {backward_options()[GetParam()]}; }
};

TEST_P(Alone, AgreesWithDifferences) {
    DifferenceCounts counts;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(describe(options(), seed));
        Random random(seed);
        expect_differences(backward_call_with(options(), seed), 20, random, counts);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(counts.compared, 30);
    EXPECT_GT(counts.telling, counts.compared / 5);
}

TEST_P(Alone, FitsTheForwardPass) {
    std::int64_t compared = 0;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        SCOPED_TRACE(describe(options(), seed));
        const BackwardCall call = backward_call_with(options(), seed);
        expect_sums(call, compared);
        expect_zeros(call);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(compared, 5);
}

INSTANTIATE_TEST_SUITE_P(Options, Alone, ::testing::Range<std::size_t>(0, backward_options().size()),
                         [](const ::testing::TestParamInfo<std::size_t>& parameter) {
                             return std::string(backward_options()[parameter.param]->name);
                         });

/// Some options that do not contradict each other, in the table's order.
Options draw_options(Random& random) {
    Options options;
    for (const Option* option : backward_options()) {
        if (random() % 8 != 0) continue;
        options.push_back(option);
        if (!can_stand_together(options)) options.pop_back();
    }
    return options;
}

/// Every value that is a number lies within the magnitude of its terms.
void expect_magnitudes(const BackwardCall& call) {
    const DefinedBackward defined = define_backward(call);
    for (const BackwardTensor& tensor : backward_tensors) {
        const std::vector<Real>& values = defined.value.*tensor.elements;
        const std::vector<Real>& magnitudes = defined.magnitude.*tensor.elements;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (!std::isfinite(values[i])) continue;
            EXPECT_TRUE(std::abs(values[i]) <= magnitudes[i] * (1 + 1e-15L) && std::isfinite(magnitudes[i]))
                << stage_info(tensor.stage).name << " " << values[i] << ", magnitude " << magnitudes[i];
        }
    }
}

class Mixes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Mixes, AgreeWithDifferencesAndTheForwardPass) {
    DifferenceCounts counts;
    std::int64_t compared = 0;
    std::int64_t unseen = 0;
    for (std::uint64_t seed = 20 * GetParam(); seed < 20 * (GetParam() + 1); ++seed) {
        Random random(seed);
        const Options options = draw_options(random);
        SCOPED_TRACE(describe(options, seed));
        const BackwardCall call = backward_call_with(options, seed);
        expect_differences(call, 8, random, counts);
        expect_sums(call, compared);
        expect_magnitudes(call);
        unseen += expect_zeros(call);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(counts.telling, 50);
    EXPECT_GT(compared, 0);
    EXPECT_GT(unseen, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Mixes, ::testing::Range<std::uint64_t>(1, 9));

/// A call with lengths that leave some rows and keys of each entry out.
BackwardCall call_with_lengths() {
    AttentionCall attention = call_with({}, 3);
    Problem& p = attention.problem;
    p.seqlen_q = 5;
    p.seqlen_kv = 7;
    attention.inputs = make_inputs(p, InputKind::normal, 3);
    attention.inputs.side.seqlens_q = {5, 3};
    attention.inputs.side.seqlens_kv = {4, 7};
    return backward_call(attention, draw_dout(p, 3));
}

TEST(DefineBackward, ReadsNothingBeyondTheLengthsAndLeavesNaNThere) {
    BackwardCall call = call_with_lengths();
    const DefinedBackward expected = define_backward(call);
    const Problem& p = call.attention.problem;
    for (std::int64_t head = 0; head < p.heads; ++head) {
        for (std::int64_t row = 3; row < 5; ++row) {
            const std::int64_t line = (p.heads + head) * p.seqlen_q + row;
            call.attention.inputs.q_at(p, 1, head, row, 0) = float(nan);
            call.dout[std::size_t(line * p.head_dim_v)] = float(nan);
            call.o[std::size_t(line * p.head_dim_v)] = nan;
            call.lse[std::size_t(line)] = nan;
        }
        call.attention.inputs.k_at(p, 0, head, 4, 0) = float(nan);
        call.attention.inputs.v_at(p, 0, head, 6, 0) = float(nan);
    }
    const DefinedBackward got = define_backward(call);
    for (const BackwardTensor& tensor : backward_tensors) {
        SCOPED_TRACE(stage_info(tensor.stage).name);
        const std::vector<Real>& values = got.value.*tensor.elements;
        std::size_t numbers = 0;
        for_each_element(tensor, call.attention, [&](auto batch, auto head, auto row, auto column) {
            const std::size_t i = shape_of(tensor, p).index(batch, head, row, column);
            EXPECT_EQ(values[i], (expected.value.*tensor.elements)[i]);
            ++numbers;
        });
        EXPECT_LT(numbers, values.size());
        EXPECT_EQ(std::ranges::count_if(values, [](Real value) { return !std::isnan(value); }), numbers);
    }
}

TEST(DefineBackward, TakesLseAndOAsGiven) {
    BackwardCall call = backward_call_with({}, 4);
    const BackwardTensors exact = define_backward(call).value;
    for (Real& lse : call.lse) lse += 1;
    for (Real& o : call.o) o *= 2;
    const BackwardTensors other = define_backward(call).value;
    for (std::size_t i = 0; i < exact.p.size(); ++i)
        EXPECT_NEAR(double(other.p[i] / exact.p[i]), std::exp(-1.0), 1e-15);
    for (std::size_t i = 0; i < exact.delta.size(); ++i) EXPECT_EQ(other.delta[i], 2 * exact.delta[i]);
}

TEST(DefineBackward, TakesDeltaInsteadOfO) {
    BackwardCall call = backward_call_with({}, 5);
    const BackwardTensors with_o = define_backward(call).value;
    call.delta = with_o.delta;
    call.o.clear();
    EXPECT_EQ(define_backward(call).value.ds, with_o.ds);
    for (Real& delta : call.delta) delta += 1;
    const BackwardTensors other = define_backward(call).value;
    EXPECT_EQ(other.delta, call.delta);
    for (std::size_t i = 0; i < other.ds.size(); ++i)
        EXPECT_NEAR(double(with_o.ds[i] - other.ds[i]), double(with_o.p[i]), 1e-15);
}

TEST(BackwardCall, HasTheSinkInLse) {
    const Option* options[] = {&option_named("lse_without_sink")};
    const AttentionCall attention = call_with(options, 7);
    std::int64_t compared = 0;
    expect_sums(backward_call(attention, draw_dout(attention.problem, 7)), compared);
    EXPECT_GT(compared, 0);
}

TEST(BackwardCall, RoundsStoredOutputsToTheirTypes) {
    BackwardCall call = backward_call_with({}, 6);
    call.attention.problem.dtype_o = Dtype::bf16;
    const BackwardCall exact = call;
    round_stored(call);
    EXPECT_NE(call.o, exact.o);
    EXPECT_NE(call.lse, exact.lse);
    for (std::size_t i = 0; i < call.o.size(); ++i)
        EXPECT_LE(std::abs(call.o[i] - exact.o[i]), 0x1p-8L * std::abs(exact.o[i]));
    for (std::size_t i = 0; i < call.lse.size(); ++i) {
        EXPECT_EQ(call.lse[i], Real(float(call.lse[i])));
        EXPECT_LE(std::abs(call.lse[i] - exact.lse[i]), 0x1p-24L * std::abs(exact.lse[i]));
    }
}

}  // namespace
}  // namespace tilescope::test
