// The backward pass by its definition against the gradients that PyTorch computed in float64:
// tests/data/record_torch_backward.py recorded them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/oracle/torch_backward_recording.h"

namespace tilescope::test {
namespace {

constexpr Real most_deviation = 1e-12L;

/// Returns how many elements it compared.
std::int64_t compare(const AttentionCall& call, const BackwardTensor& tensor, const std::vector<Real>& got,
                     const std::vector<Real>& expected) {
    const BackwardShape shape = shape_of(tensor, call.problem);
    Real largest = 0;
    for (const Real value : expected) largest = std::max(largest, std::abs(value));
    std::int64_t compared = 0;
    for_each_element(tensor, call, [&](auto batch, auto head, auto row, auto column) {
        const std::size_t i = shape.index(batch, head, row, column);
        EXPECT_TRUE(std::abs(got.at(i) - expected.at(i)) <= most_deviation * largest)
            << got.at(i) << " at batch " << batch << ", head " << head << ", row " << row << ", column "
            << column << ", PyTorch " << expected.at(i);
        ++compared;
    });
    return compared;
}

TEST(TorchBackward, ComputesTheSame) {
    std::map<Stage, std::int64_t> compared;
    for (const TorchBackwardCase& torch : read_torch_backward(TILESCOPE_TORCH_BACKWARD_RECORDING)) {
        SCOPED_TRACE(torch.name);
        const AttentionCall& call = torch.call.attention;
        ASSERT_NO_THROW(validate(call.problem, torch.name));
        ASSERT_NO_THROW(validate(call.inputs.side, call.problem, torch.name));
        ASSERT_NO_THROW(validate(call.inputs.bias, call.problem, torch.name));
        const DefinedBackward defined = define_backward(torch.call);
        for (const BackwardTensor& tensor : backward_tensors) {
            const std::vector<Real>& expected = torch.recorded.*tensor.elements;
            const bool is_output = tensor.stage >= Stage::dq;
            ASSERT_TRUE(!is_output || !expected.empty()) << stage_info(tensor.stage).name;
            if (expected.empty()) continue;
            SCOPED_TRACE(stage_info(tensor.stage).name);
            compared[tensor.stage] += compare(call, tensor, defined.value.*tensor.elements, expected);
        }
        ASSERT_FALSE(HasFailure());
    }
    for (const Stage stage : {Stage::p, Stage::delta, Stage::dp, Stage::ds, Stage::dq, Stage::dk, Stage::dv})
        EXPECT_GT(compared[stage], 0) << stage_info(stage).name;
}

}  // namespace
}  // namespace tilescope::test
