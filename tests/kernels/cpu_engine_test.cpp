#include <gtest/gtest.h>

#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

struct HealthyCase {
    const KernelInfo* kernel;
    KernelConfig config;

    friend void PrintTo(const HealthyCase& c, std::ostream* out) {
        *out << c.kernel->name << " " << test_name(c.config);
    }
};

struct FaultCase {
    const KernelInfo* kernel;
    const FaultInfo* fault;

    friend void PrintTo(const FaultCase& c, std::ostream* out) {
        *out << c.kernel->name << " " << c.fault->name;
    }
};

std::vector<HealthyCase> healthy_cases() {
    std::vector<HealthyCase> cases;
    for (const KernelInfo& kernel : all_kernels()) {
        if (kernel.cpu.hooked == nullptr) continue;
        for (const KernelConfig& config : kernel.configs) cases.push_back({&kernel, config});
    }
    return cases;
}

std::vector<FaultCase> fault_cases() {
    std::vector<FaultCase> cases;
    for (const KernelInfo& kernel : all_kernels()) {
        if (kernel.cpu.hooked == nullptr) continue;
        for (const FaultInfo& fault : all_faults) {
            if (faulty_config(kernel, fault) != nullptr && !fault.gpu_only)
                cases.push_back({&kernel, &fault});
        }
    }
    return cases;
}

class HealthyOnCpu : public ::testing::TestWithParam<HealthyCase> {};

TEST_P(HealthyOnCpu, ComputesTextbookAttentionAndRecordsEveryTile) {
    for (const std::string& run : tried_runs(*GetParam().kernel, GetParam().config)) {
        expect_healthy(run + " --engine cpu");
    }
}

INSTANTIATE_TEST_SUITE_P(Kernels, HealthyOnCpu, ::testing::ValuesIn(healthy_cases()), [](const auto& test) {
    return std::string(test.param.kernel->name) + "_" + test_name(test.param.config);
});

class FaultOnCpu : public ::testing::TestWithParam<FaultCase> {};

TEST_P(FaultOnCpu, ChangesItsStageAndNoneBefore) {
    expect_planted(*GetParam().fault, std::string(GetParam().kernel->name), "cpu");
}

INSTANTIATE_TEST_SUITE_P(Kernels, FaultOnCpu, ::testing::ValuesIn(fault_cases()), [](const auto& test) {
    return std::string(test.param.kernel->name) + "_" + std::string(test.param.fault->name);
});

}  // namespace
}  // namespace tilescope::testing
