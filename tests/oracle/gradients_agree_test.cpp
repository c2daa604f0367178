// What judge() expects of a backward pass against the definition and against PyTorch: each option of a call
// and its dump alone, with each other option, and in random mixes.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dump/schema/error.h"
#include "oracle/judge.h"
#include "tests/oracle/backward_options.h"
#include "tests/oracle/definition_backward.h"
#include "tests/oracle/definition_replay.h"
#include "tests/oracle/torch_backward_recording.h"

namespace tilescope::test {
namespace {

constexpr Real most_deviation = 1e-12L;

using Options = std::vector<const Option*>;

std::vector<float> as_floats(const std::vector<Real>& values) {
    std::vector<float> floats;
    for (const Real value : values) floats.push_back(float(value));
    return floats;
}

/// The call as a recording in which `stage` alone was captured, with zeros: then judge() expects there what
/// follows from the inputs.
std::unique_ptr<MemoryRecording> recording_of(const BackwardCall& call, Stage stage) {
    std::unique_ptr<MemoryRecording> recording = recording_of(call.attention);
    const Problem& problem = call.attention.problem;
    recording->set_input(Input::dout, call.dout);
    recording->set_input(Input::o, as_floats(call.o));
    recording->set_input(Input::lse, as_floats(call.lse));
    for (std::int64_t i = 0; i < tile_count(problem, stage); ++i) {
        const TileId tile = tile_at(problem, stage, i);
        const Problem entry = problem_of(problem, call.attention.inputs.side, tile.batch);
        const TileShape extent = tile_extent(entry, stage, tile);
        if (extent.rows <= 0 || extent.cols <= 0) continue;
        recording->set_tile(stage, tile,
                            std::vector<float>(std::size_t(tile_shape(problem, stage).elements())));
    }
    return recording;
}

/// What judge() expects of a stage, element by element: value and tolerance.
struct Expected {
    double value = std::numeric_limits<double>::quiet_NaN();
    double tolerance = std::numeric_limits<double>::quiet_NaN();
};

std::vector<Expected> expected_of(const BackwardCall& call, const BackwardTensor& tensor) {
    const Problem& problem = call.attention.problem;
    const BackwardShape shape = shape_of(tensor, problem);
    std::vector<Expected> expected(shape.index(problem.batch, 0, 0, 0));
    const std::unique_ptr<MemoryRecording> recording = recording_of(call, tensor.stage);
    if (!recording->has_stage(tensor.stage)) return expected;
    JudgeOptions options;
    options.threads = 1;
    options.observe = [&](Stage stage, const TileId& tile, const MatrixF& got, const Estimate& estimate) {
        const TileContext context = tile_context(problem, stage, tile);
        for (Eigen::Index i = 0; i < got.rows(); ++i) {
            for (Eigen::Index j = 0; j < got.cols(); ++j) {
                expected[shape.index(tile.batch, tile.head, context.first_row + i, context.first_col + j)] = {
                    estimate.value(i, j), estimate.error(i, j)};
            }
        }
    };
    judge(*recording, options);
    return expected;
}

bool agrees(double got, Real expected, Real magnitude) {
    if (std::isnan(expected)) return std::isnan(got);
    if (std::isinf(expected)) return Real(got) == expected;
    return std::abs(Real(got) - expected) <=
           most_deviation * magnitude + Real(std::numeric_limits<double>::min());
}

/// Elements that were compared, by stage.
using Coverage = std::map<Stage, std::int64_t>;

void expect_tensor(const BackwardCall& call, const BackwardTensor& tensor, const std::vector<Real>& values,
                   const std::vector<Real>& magnitudes, Coverage& coverage) {
    const BackwardShape shape = shape_of(tensor, call.attention.problem);
    const std::vector<Expected> expected = expected_of(call, tensor);
    for_each_element(tensor, call.attention, [&](auto batch, auto head, auto row, auto column) {
        if (::testing::Test::HasFailure()) return;
        const std::size_t index = shape.index(batch, head, row, column);
        const Expected& got = expected[index];
        EXPECT_TRUE(agrees(got.value, values[index], magnitudes[index]))
            << stage_info(tensor.stage).name << " at " << batch << ", " << head << ", " << row << ", "
            << column << ": " << got.value << ", by definition " << double(values[index]) << " with terms of "
            << double(magnitudes[index]);
        EXPECT_EQ(std::isnan(got.tolerance), std::isnan(got.value)) << stage_info(tensor.stage).name;
        ++coverage[tensor.stage];
    });
}

void expect_equals_definition(BackwardCall call, Coverage& coverage) {
    call.attention.problem.direction = Direction::backward;
    // The oracle reads what a forward kernel stored.
    round_stored(call);
    const DefinedBackward defined = define_backward(call);
    for (const BackwardTensor& tensor : backward_tensors) {
        expect_tensor(call, tensor, defined.value.*tensor.elements, defined.magnitude.*tensor.elements,
                      coverage);
    }
}

bool is_refused(const BackwardCall& call) {
    try {
        require_known_semantics(*recording_of(call, Stage::dq));
        return false;
    } catch (const Error&) {
        return true;
    }
}

class OptionTest : public ::testing::TestWithParam<std::size_t> {
 protected:
    const Option* option() const { return backward_options()[GetParam()]; }
};

using Alone = OptionTest;
using Pairs = OptionTest;

TEST_P(Alone, EqualsTheDefinition) {
    Coverage coverage;
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const Options options = {option()};
        SCOPED_TRACE(describe(options, seed));
        expect_equals_definition(backward_call_with(options, seed), coverage);
        ASSERT_FALSE(HasFailure());
    }
    for (const BackwardTensor& tensor : backward_tensors)
        EXPECT_GT(coverage[tensor.stage], 10) << stage_info(tensor.stage).name;
}

TEST_P(Pairs, EqualTheDefinition) {
    Coverage coverage;
    for (std::size_t i = GetParam() + 1; i < backward_options().size(); ++i) {
        const Options options = {option(), backward_options()[i]};
        if (!can_stand_together(options)) continue;
        const std::uint64_t seed = 1000 * GetParam() + i;
        SCOPED_TRACE(describe(options, seed));
        const BackwardCall call = backward_call_with(options, seed);
        if (is_refused(call)) continue;
        expect_equals_definition(call, coverage);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_EQ(coverage.empty(), GetParam() + 1 == backward_options().size());
}

std::string name_of(const ::testing::TestParamInfo<std::size_t>& parameter) {
    return std::string(backward_options()[parameter.param]->name);
}

INSTANTIATE_TEST_SUITE_P(Gradients, Alone, ::testing::Range<std::size_t>(0, backward_options().size()),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Gradients, Pairs, ::testing::Range<std::size_t>(0, backward_options().size()),
                         name_of);

class Mixes : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Mixes, EqualTheDefinition) {
    Coverage coverage;
    int compared = 0;
    for (std::uint64_t seed = 40 * GetParam(); seed < 40 * (GetParam() + 1); ++seed) {
        Random random(seed);
        Options options;
        for (const Option* option : backward_options()) {
            if (random() % 8 != 0) continue;
            options.push_back(option);
            if (!can_stand_together(options)) options.pop_back();
        }
        const BackwardCall call = backward_call_with(options, seed);
        if (is_refused(call)) continue;
        SCOPED_TRACE(describe(options, seed));
        expect_equals_definition(call, coverage);
        ASSERT_FALSE(HasFailure());
        ++compared;
    }
    EXPECT_GT(compared, 20);
}

INSTANTIATE_TEST_SUITE_P(Gradients, Mixes, ::testing::Range<std::uint64_t>(1, 7));

/// PyTorch's gradients are those of the exact o and lse, which no dump holds: torch_backward_test compares
/// them with the definition, and this the definition with the oracle for the same calls.
TEST(Torch, CallsOfPyTorchEqualTheDefinition) {
    Coverage coverage;
    for (const TorchBackwardCase& torch : read_torch_backward(TILESCOPE_TORCH_BACKWARD_RECORDING)) {
        SCOPED_TRACE(torch.name);
        expect_equals_definition(torch.call, coverage);
        ASSERT_FALSE(HasFailure());
    }
    for (const BackwardTensor& tensor : backward_tensors)
        EXPECT_GT(coverage[tensor.stage], 100) << stage_info(tensor.stage).name;
}

}  // namespace
}  // namespace tilescope::test
