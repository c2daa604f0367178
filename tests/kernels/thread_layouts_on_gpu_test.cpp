// The threads that the bundled kernels declare are those that write on a GPU.

#include <gtest/gtest.h>

#include <fmt/format.h>

#include "kernels/attention/registry.h"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"
#include "tests/kernels/thread_checks.h"

namespace tilescope::testing {
namespace {

struct ThreadCase {
    const KernelInfo* kernel;
    KernelConfig config;

    std::string command_line() const {
        return fmt::format("--engine cuda --kernel {} --dtype {} --shape 1,2,200,300,{} --config {}",
                           kernel->name, dtype_info(config.dtype).name, config.head_dim, config_name(config));
    }
    friend void PrintTo(const ThreadCase& c, std::ostream* out) { *out << c.command_line(); }
};

std::vector<ThreadCase> cases() {
    std::vector<ThreadCase> all;
    for (const KernelInfo& kernel : all_kernels()) {
        for (const KernelConfig& config : kernel.configs) all.push_back({&kernel, config});
    }
    return all;
}

using ThreadsOnGpu = KernelCaseOnGpu<ThreadCase>;

TEST_P(ThreadsOnGpu, OwnWhatTheyWrite) {
    expect_declared_owners(GetParam().command_line());
}

/// The block that was launched has the warps that own acc and, with wgmma, four that fetch tiles.
TEST_P(ThreadsOnGpu, AreThoseOfTheLaunch) {
    const CapturedRun run = run_kernel(request_of(GetParam().command_line()));
    const auto map = thread_map(run.problem(), Stage::acc, run.threads(), "test");
    ASSERT_TRUE(map);
    const int threads = map->warps() * 32 + (GetParam().config.wgmma ? 128 : 0);
    EXPECT_NE(run.provenance().launch.find(fmt::format(", {} threads,", threads)), std::string::npos)
        << run.provenance().launch;
}

INSTANTIATE_TEST_SUITE_P(Declared, ThreadsOnGpu, ::testing::ValuesIn(cases()), [](const auto& test) {
    return std::string(test.param.kernel->name) + "_" + test_name(test.param.config);
});

}  // namespace
}  // namespace tilescope::testing
