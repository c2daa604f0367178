#include <string>
#include <utility>

#include "dump/poison.h"
#include "kernels/run/poison_runs.h"
#include "kernels/run/repeat_runs.h"
#include "tests/kernels/on_gpu.h"
#include "tests/kernels/run_checks.h"
#include "tests/kernels/shared_reader.h"

namespace tilescope::testing {
namespace {

using PoisonOnGpu = OnGpu;

TEST_F(PoisonOnGpu, IsFoundOnEveryMultiprocessorByAKernelThatWritesNoSharedMemory) {
    for (const std::size_t bytes :
         {largest_shared_memory(), std::size_t(64) << 10, std::size_t(48) << 10, std::size_t(16) << 10}) {
        for (const std::uint32_t word : {0x12345678u, 0x3c003c00u, 0xffffffffu}) {
            SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(word));
            EXPECT_EQ(std::size_t(poison_shared_memory(word)), multiprocessor_count());
            const SharedCensus census = read_shared_memory(word, bytes);
            EXPECT_EQ(census.multiprocessors, multiprocessor_count());
            EXPECT_GT(census.words, 0u);
            // On an H200, 2.3 % of the words of blocks of 64 KiB and 0.5 % of those of 16 KiB held something
            // else, in some multiprocessors; none of those of 48 KiB and of the largest.
            EXPECT_LT(census.others, census.words / 20);
        }
    }
    // The census tells one word from another.
    poison_shared_memory(0x12345678u);
    const SharedCensus census = read_shared_memory(0x12345679u, largest_shared_memory());
    EXPECT_EQ(census.others, census.words);
}

TEST_F(PoisonOnGpu, HealthyKernelsDependOnNothing) {
    for (const KernelInfo* kernel : kernels_here()) {
        for (const KernelConfig& config : kernel->configs) {
            for (const std::string& run : healthy_runs(*kernel, config)) {
                SCOPED_TRACE(run);
                const PoisonReport report = run_poisoned(request_of(run + " --engine cuda")).report;
                EXPECT_EQ(verdict_of(report), PoisonVerdict::independent);
            }
        }
    }
}

TEST_F(PoisonOnGpu, UnwrittenPIsFound) {
    // scalar records P as its threads write it, wmma as it lies in shared memory.
    for (const auto& [kernel, stage] : {std::pair("scalar", Stage::acc), std::pair("wmma", Stage::p)}) {
        SCOPED_TRACE(kernel);
        const PoisonReport report =
            run_poisoned(request_of(std::string("--engine cuda --shape 1,2,64,128,64 --fault p_lane_stride "
                                                "--kernel ") +
                                    kernel))
                .report;
        EXPECT_EQ(verdict_of(report), PoisonVerdict::dependent);
        const PoisonedRun* run = report.first_changed_run();
        ASSERT_NE(run, nullptr);
        EXPECT_EQ(first_changed(run->stages)->stage, stage);
    }
}

TEST_F(PoisonOnGpu, OutputsThatWereNeverStoredAreCounted) {
    for (const char* kernel : {"scalar", "wmma"}) {
        SCOPED_TRACE(kernel);
        const PoisonReport report =
            run_poisoned(request_of(std::string("--engine cuda --shape 1,2,64,128,64 --fault "
                                                "columns_uncovered --kernel ") +
                                    kernel))
                .report;
        EXPECT_EQ(report.outputs[0].unwritten, 2 * 64 * 16);
        EXPECT_EQ(report.outputs[0].first->col, 48);
        EXPECT_EQ(report.outputs[1].unwritten, 0);
        EXPECT_EQ(report.first_changed_run(), nullptr);
    }
}

TEST_F(PoisonOnGpu, RepeatedRunsOfHealthyKernelsAreTheSame) {
    for (const char* kernel : {"scalar", "wmma"}) {
        const RepeatReport report = repeat_runs(
            request_of(std::string("--engine cuda --shape 2,4,130,200,64 --causal --kernel ") + kernel), 10);
        EXPECT_EQ(report.changed_runs, 0) << kernel;
        EXPECT_EQ(report.stages.size(), 10u) << kernel;
    }
}

// The faults delay one warp, the same in every run: only warps that wait in hooks change who wins.
TEST_F(PoisonOnGpu, EachBarrierThatIsMissingIsFoundInTwelveRuns) {
    int faults = 0;
    for (const FaultInfo& fault : all_faults) {
        if (fault.family != "race") continue;
        for (const KernelInfo* kernel : kernels_here()) {
            if (faulty_config(*kernel, fault) == nullptr) continue;
            SCOPED_TRACE(std::string(kernel->name) + " " + std::string(fault.name));
            const std::string run = "--engine cuda --shape 1,2,128,256,64 --kernel " +
                                    std::string(kernel->name) + " --fault " + std::string(fault.name);
            EXPECT_GT(repeat_runs(request_of(run), 12).changed_runs, 0);
            ++faults;
        }
    }
    EXPECT_GT(faults, 0);
}

}  // namespace
}  // namespace tilescope::testing
