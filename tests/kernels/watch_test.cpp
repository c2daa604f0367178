#include <gtest/gtest.h>

#include <string>

#include "kernels/run/watch_runs.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

constexpr std::size_t budget = std::size_t(64) << 20;

TEST(WatchOnCpu, HealthyKernelsBreakNoRule) {
    for (const KernelInfo& kernel : all_kernels()) {
        if (kernel.cpu.hooked == nullptr) continue;
        for (const KernelConfig& config : kernel.configs) {
            for (const std::string& run : tried_runs(kernel, config)) {
                SCOPED_TRACE(run);
                const WatchResult result = run_watched(request_of(run + " --engine cpu"), budget);
                for (const WatchFinding& finding : result.report.findings) {
                    ADD_FAILURE() << finding.rule->name << ": " << to_string(finding);
                }
                EXPECT_GT(result.report.tiles, 0);
                EXPECT_FALSE(result.dump);
            }
        }
    }
}

}  // namespace
}  // namespace tilescope::testing
