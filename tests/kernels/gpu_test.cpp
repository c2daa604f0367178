#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"
#include "tests/kernels/trapping_kernel.h"

namespace tilescope::testing {
namespace {

struct KernelCase {
    const KernelInfo* kernel;
    KernelConfig config;

    friend void PrintTo(const KernelCase& c, std::ostream* out) {
        *out << c.kernel->name << " " << test_name(c.config);
    }
};

std::vector<KernelCase> kernel_cases() {
    std::vector<KernelCase> cases;
    for (const KernelInfo& kernel : all_kernels()) {
        for (const KernelConfig& config : kernel.configs) cases.push_back({&kernel, config});
    }
    return cases;
}

std::string name_of(const ::testing::TestParamInfo<KernelCase>& test) {
    return std::string(test.param.kernel->name) + "_" + test_name(test.param.config);
}

using KernelOnGpu = KernelCaseOnGpu<KernelCase>;

TEST_P(KernelOnGpu, ComputesTextbookAttentionAndRecordsEveryTile) {
    for (const std::string& run : healthy_runs(*GetParam().kernel, GetParam().config)) {
        expect_healthy(run + " --engine cuda");
    }
}

TEST_P(KernelOnGpu, HooksLeaveTheBitsOfTheOutputs) {
    for (const std::string& run : healthy_runs(*GetParam().kernel, GetParam().config)) {
        const InertProof proof = prove_inert(request_of(run + " --engine cuda"));
        EXPECT_GT(proof.compared, 0) << run;
        EXPECT_EQ(proof.different, 0) << run << ": " << proof.first_difference;
        for (const KernelFigures& figures : {proof.hooked, proof.plain}) {
            EXPECT_GT(figures.registers, 0) << run;
            EXPECT_GT(figures.dynamic_shared, 0u) << run;
        }
        EXPECT_GT(std::min({proof.plain_ms, proof.unarmed_ms, proof.capturing_ms}), 0.0) << run;
    }
}

INSTANTIATE_TEST_SUITE_P(Healthy, KernelOnGpu, ::testing::ValuesIn(kernel_cases()), name_of);

struct FaultCase {
    const KernelInfo* kernel;
    const FaultInfo* fault;
    KernelConfig config;

    friend void PrintTo(const FaultCase& c, std::ostream* out) {
        *out << c.kernel->name << " " << c.fault->name;
    }
};

std::vector<FaultCase> fault_cases() {
    std::vector<FaultCase> cases;
    for (const KernelInfo& kernel : all_kernels()) {
        for (const FaultInfo& fault : all_faults) {
            const KernelConfig* config = faulty_config(kernel, fault);
            if (config != nullptr) cases.push_back({&kernel, &fault, *config});
        }
    }
    return cases;
}

using FaultOnGpu = KernelCaseOnGpu<FaultCase>;

TEST_P(FaultOnGpu, ChangesItsStageAndNoneBefore) {
    expect_planted(*GetParam().fault, std::string(GetParam().kernel->name), "cuda");
}

INSTANTIATE_TEST_SUITE_P(Planted, FaultOnGpu, ::testing::ValuesIn(fault_cases()), [](const auto& test) {
    return std::string(test.param.kernel->name) + "_" + std::string(test.param.fault->name);
});

class DefaultKernel : public OnGpu {};

TEST_F(DefaultKernel, IsTheOneThatTheBuildNames) {
    const RunRequest request = request_of("--engine cuda --shape 1,1,64,64,64");
#ifdef TILESCOPE_TENSOR_CORES
    EXPECT_EQ(request.kernel->name, "wmma");
#else
    EXPECT_EQ(request.kernel->name, "scalar");
#endif
}

class SinkOnGpu : public OnGpu {};
using SinkOnGpuDeathTest = SinkOnGpu;

/// Runs a kernel that writes the Q tiles and then traps; exit code 0 when the recording says so and keeps
/// them.
[[noreturn]] void record_trap() {
    KernelInfo trapping = *find_kernel("scalar");
    trapping.cuda.hooked = &hooked::trapping;
    RunRequest request =
        request_of("--kernel scalar --engine cuda --shape 1,1,32,64,64 --sink-memory mapped");
    request.kernel = &trapping;
    const CapturedRun run = run_kernel(request);
    std::vector<float> tile(32 * 64);
    const bool keeps_q = run.read_tile(Stage::q, {}, tile) && tile[0] == 1.0f;
    std::exit(run.capture().ended != "completed" && keeps_q && !run.has_tile(Stage::k, {}) ? 0 : 1);
}

TEST_F(SinkOnGpuDeathTest, WhatWasWrittenBeforeATrapIsKept) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(record_trap(), ::testing::ExitedWithCode(0), "");
}

TEST_F(SinkOnGpu, MappedMemoryRecordsTheSameTiles) {
    const std::string options = "--kernel wmma --engine cuda --shape 1,2,70,130,64 --causal";
    const CapturedRun device = run_kernel(request_of(options));
    const CapturedRun mapped = run_kernel(request_of(options + " --sink-memory mapped"));
    for (const TileId tile : {TileId{0, 0, 0, 0}, TileId{0, 1, 1, 1}}) {
        std::vector<float> a(64 * 64), b(64 * 64);
        ASSERT_TRUE(device.read_tile(Stage::s, tile, a));
        ASSERT_TRUE(mapped.read_tile(Stage::s, tile, b));
        EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
    }
}

}  // namespace
}  // namespace tilescope::testing
