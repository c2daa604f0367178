#include <string>

#include "kernels/run/flight_runs.h"
#include "kernels/run/watch_runs.h"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

using WatchOnGpu = OnGpu;

constexpr std::size_t budget = std::size_t(64) << 20;

TEST_F(WatchOnGpu, HealthyKernelsBreakNoRule) {
    for (const KernelInfo* kernel : kernels_here()) {
        for (const KernelConfig& config : kernel->configs) {
            for (const std::string& run : healthy_runs(*kernel, config)) {
                SCOPED_TRACE(run);
                const WatchResult result = run_watched(request_of(run + " --engine cuda"), budget);
                for (const WatchFinding& finding : result.report.findings) {
                    ADD_FAILURE() << finding.rule->name << ": " << to_string(finding);
                }
                EXPECT_GT(result.report.tiles, 0);
            }
        }
    }
}

TEST_F(WatchOnGpu, FaultsAreFound) {
    const struct {
        const char* name;
        const char* rule;
    } faults[] = {{"stale_k_tile", "operand"},
                  {"m_starts_at_zero", "m_above_scores"},
                  {"nan_times_zero", "nan"},
                  {"columns_uncovered", "unwritten"},
                  {"double_normalised", "o_not_acc_over_l"}};
    for (const KernelInfo* kernel : kernels_here()) {
        for (const auto& [name, rule] : faults) {
            const FaultInfo& fault = *find_fault(name);
            const KernelConfig* const config = faulty_config(*kernel, fault);
            if (config == nullptr) continue;
            // The statistics of a lane's part of l say nothing of o.
            if (recorded_of(*kernel, *config).l_lanes != 1 && std::string_view(rule) == "o_not_acc_over_l")
                continue;
            SCOPED_TRACE(std::string(kernel->name) + " " + name);
            const WatchResult result =
                run_watched(request_of("--engine cuda " + std::string(fault.shown_by) + " --fault " + name +
                                       " --kernel " + std::string(kernel->name)),
                            budget);
            ASSERT_FALSE(result.report.findings.empty());
            EXPECT_EQ(result.report.findings[0].rule->name, rule) << to_string(result.report.findings[0]);
            ASSERT_TRUE(result.dump);
            const WatchFinding& first = result.report.findings[0];
            EXPECT_TRUE(result.dump->has_tile(first.stage, first.tile));
        }
    }
}

TEST_F(WatchOnGpu, TheFlightRecorderStopsAtThePlantedNan) {
    for (const KernelInfo* kernel : kernels_here()) {
        SCOPED_TRACE(kernel->name);
        const RunRequest request =
            request_of("--engine cuda --shape 1,2,64,128,64 --kernel " + std::string(kernel->name));
        FlightRequest flight;
        flight.kept = 3;
        flight.launches = 12;
        flight.nan_launch = 7;
        const FlightResult result = record_flight(request, flight);
        ASSERT_TRUE(result.freeze);
        EXPECT_EQ(result.freeze->launch, 7);
        // The NaN is in the last row of K, and so in the last column of S.
        const bool holds_k = records(*kernel, Stage::k);
        EXPECT_EQ(result.freeze->stage, holds_k ? Stage::k : Stage::s);
        EXPECT_EQ(holds_k ? result.freeze->row : result.freeze->col,
                  (request.problem.seqlen_kv - 1) % request.config.block_n);
        ASSERT_EQ(result.kept.size(), 3u);
        EXPECT_EQ(result.kept.back().provenance().launch, "launch 7");
        ASSERT_TRUE(result.kept.back().has_inputs());
        EXPECT_TRUE(result.kept.front().has_stage(Stage::acc));

        flight.nan_launch.reset();
        EXPECT_FALSE(record_flight(request, flight).freeze);
    }
}

}  // namespace
}  // namespace tilescope::testing
