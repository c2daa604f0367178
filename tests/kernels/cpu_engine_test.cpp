#include <gtest/gtest.h>

#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

class HealthyOnCpu : public ::testing::TestWithParam<KernelConfig> {};

TEST_P(HealthyOnCpu, ComputesTextbookAttentionAndRecordsEveryTile) {
    for (const std::string& run : healthy_runs(*find_kernel("scalar"), GetParam())) {
        expect_healthy(run + " --engine cpu");
    }
}

INSTANTIATE_TEST_SUITE_P(Scalar, HealthyOnCpu, ::testing::ValuesIn(find_kernel("scalar")->configs),
                         [](const auto& test) { return test_name(test.param); });

class FaultOnCpu : public ::testing::TestWithParam<FaultInfo> {};

TEST_P(FaultOnCpu, ChangesItsStageAndNoneBefore) {
    expect_planted(GetParam(), "scalar", "cpu");
}

std::vector<FaultInfo> scalar_faults() {
    std::vector<FaultInfo> faults;
    for (const FaultInfo& fault : all_faults) {
        if (applies_to(fault, FaultyKernel::scalar)) faults.push_back(fault);
    }
    return faults;
}

INSTANTIATE_TEST_SUITE_P(Scalar, FaultOnCpu, ::testing::ValuesIn(scalar_faults()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tilescope::testing
