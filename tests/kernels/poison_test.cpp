#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/attention/registry.h"
#include "kernels/run/reports.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

constexpr const char* small_run = "--kernel scalar --engine cpu --shape 1,2,40,70,64";

/// The report of a request whose kernel is replaced.
PoisonReport poisoned(const char* options, decltype(CpuBuild::launch) kernel) {
    const CpuBuild build = {kernel};
    KernelInfo replaced = *find_kernel("scalar");
    replaced.cpu.hooked = &build;
    RunRequest request = request_of(options);
    request.kernel = &replaced;
    return run_poisoned(request).report;
}

const auto run_scalar = find_kernel("scalar") -> cpu.hooked->launch;

std::uint16_t* o_of(const AttentionArgs& args) {
    return static_cast<std::uint16_t*>(args.o);
}

TEST(Poison, FillsAreFiniteOrNaNInEveryType) {
    const auto as_all_types = [](std::uint32_t word) {
        return std::array{decode(Dtype::f16, word & 0xffffu), decode(Dtype::bf16, word & 0xffffu),
                          decode(Dtype::f32, word)};
    };
    for (const Poison& poison : poisons) {
        ASSERT_TRUE(poison.fill.shared_word.has_value());
        for (const float value : as_all_types(*poison.fill.shared_word)) {
            EXPECT_EQ(std::isnan(value), poison.name == "NaN") << poison.name;
            EXPECT_EQ(value == 0.0f, poison.name.starts_with("zeros")) << poison.name;
        }
    }
}

class HealthyPoisoned : public ::testing::TestWithParam<KernelConfig> {};

TEST_P(HealthyPoisoned, DependsOnNothing) {
    for (const std::string& run : healthy_runs(*find_kernel("scalar"), GetParam())) {
        SCOPED_TRACE(run);
        const PoisonReport report = run_poisoned(request_of(run + " --engine cpu")).report;
        EXPECT_EQ(verdict_of(report), PoisonVerdict::independent);
        ASSERT_EQ(report.runs.size(), 3u);
        for (const PoisonedRun& poisoned : report.runs) EXPECT_GT(count_compared(poisoned.stages), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Scalar, HealthyPoisoned,
                         ::testing::Values(find_kernel("scalar")->faults.front().config,
                                           KernelConfig{48, 64, 1, 128}),
                         [](const auto& test) { return test_name(test.param); });

// P is the only array of shared memory that faults leave unwritten; it is read by acc. A fault that leaves
// out columns or rows of o leaves them as they were.
TEST(Poison, FaultsThatReadOrLeaveOldMemoryAreTheOnesThatDepend) {
    const std::map<std::string_view, Stage> dependent = {
        {"p_lane_stride", Stage::acc}, {"columns_uncovered", Stage::o}, {"rows_uncovered", Stage::o}};
    for (const FaultInfo& fault : all_faults) {
        if (faulty_config(*find_kernel("scalar"), fault) == nullptr || fault.gpu_only) continue;
        SCOPED_TRACE(fault.name);
        const PoisonReport report =
            run_poisoned(request_of("--kernel scalar --engine cpu --fault " + std::string(fault.name) + " " +
                                    std::string(fault.shown_by)))
                .report;
        const auto expected = dependent.find(fault.name);
        if (expected == dependent.end()) {
            EXPECT_EQ(verdict_of(report), PoisonVerdict::independent);
            continue;
        }
        EXPECT_EQ(verdict_of(report), PoisonVerdict::dependent);
        const PoisonedRun* run = report.first_changed_run();
        if (expected->second == Stage::acc) {
            ASSERT_NE(run, nullptr);
            EXPECT_EQ(first_changed(run->stages)->stage, Stage::acc);
        } else {
            EXPECT_EQ(run, nullptr);
        }
    }
}

TEST(Poison, UnwrittenPIsSeenInEveryElementThatIsComputedFromIt) {
    const PoisonResult result =
        run_poisoned(request_of("--kernel scalar --engine cpu --shape 1,2,64,128,64 --fault p_lane_stride"));
    const PoisonedRun& nan = result.report.runs.back();
    ASSERT_EQ(nan.poison->name, "NaN");
    for (const StageDifference& stage : nan.stages) {
        // acc: 2 heads, 2 KV tiles, 64 rows, 64 columns; every row of P has unwritten elements.
        const std::int64_t expected = stage.stage == Stage::acc ? 2 * 2 * 64 * 64
                                      : stage.stage == Stage::o ? 2 * 64 * 64
                                                                : 0;
        EXPECT_EQ(stage.changed, expected) << stage_info(stage.stage).name;
    }
    const ElementDifference& first = *first_changed(nan.stages)->first;
    EXPECT_EQ(first.tile, TileId());
    EXPECT_EQ(first.row, 0);
    EXPECT_EQ(first.col, 0);
    EXPECT_TRUE(std::isfinite(first.first_run));
    EXPECT_TRUE(std::isnan(first.second_run));
    for (const UnwrittenOutput& output : result.report.outputs) EXPECT_EQ(output.unwritten, 0);

    std::vector<float> acc(32 * 64);
    ASSERT_TRUE(result.nan_run.read_tile(Stage::acc, {0, 1, 1, 1}, acc));
    EXPECT_TRUE(std::isnan(acc[0]));
}

TEST(Poison, OutputsThatWereNeverStoredAreCountedAlsoWhereTheyAreNotSelected) {
    for (const char* select : {"", " --select head=0:stage=s"}) {
        const PoisonReport report =
            run_poisoned(request_of(std::string("--kernel scalar --engine cpu --shape 2,2,40,70,64 "
                                                "--fault columns_uncovered") +
                                    select))
                .report;
        ASSERT_EQ(report.outputs.size(), 2u);
        const UnwrittenOutput& o = report.outputs[0];
        EXPECT_EQ(o.stage, Stage::o);
        EXPECT_EQ(o.elements, 2 * 2 * 40 * 64);
        EXPECT_EQ(o.unwritten, 2 * 2 * 40 * 16);
        EXPECT_EQ(o.first->row, 0);
        EXPECT_EQ(o.first->col, 48);
        EXPECT_EQ(report.outputs[1].stage, Stage::lse);
        EXPECT_EQ(report.outputs[1].elements, 2 * 2 * 40);
        EXPECT_EQ(report.outputs[1].unwritten, 0);
        EXPECT_EQ(verdict_of(report), PoisonVerdict::dependent);
    }
}

TEST(Poison, TheFirstUnwrittenElementIsFoundByItsPlace) {
    const PoisonReport report = poisoned("--kernel scalar --engine cpu --shape 2,3,40,70,64",
                                         [](const AttentionArgs& args, const KernelConfig& config,
                                            Fault fault, std::uint32_t word, const Sink& sink) {
                                             const std::size_t element = ((1 * 3 + 2) * 40 + 17) * 64 + 5;
                                             const std::uint16_t before = o_of(args)[element];
                                             const Launch launch =
                                                 run_scalar(args, config, fault, word, sink);
                                             o_of(args)[element] = before;
                                             return launch;
                                         });
    const UnwrittenOutput& o = report.outputs[0];
    EXPECT_EQ(o.unwritten, 1);
    EXPECT_EQ(o.first->batch, 1);
    EXPECT_EQ(o.first->head, 2);
    EXPECT_EQ(o.first->row, 17);
    EXPECT_EQ(o.first->col, 5);
}

TEST(Poison, StoringTheBitsOfAFillIsNotLeavingItThere) {
    const PoisonReport report = poisoned(small_run, [](const AttentionArgs& args, const KernelConfig& config,
                                                       Fault fault, std::uint32_t word, const Sink& sink) {
        const Launch launch = run_scalar(args, config, fault, word, sink);
        o_of(args)[0] = 0xffffu;
        o_of(args)[1] = 0x5a5au;
        std::memset(args.lse, 0xff, sizeof(float));
        std::memset(args.lse + 1, 0x5a, sizeof(float));
        return launch;
    });
    EXPECT_EQ(verdict_of(report), PoisonVerdict::independent);
}

TEST(Poison, ReadingTheOldOutputIsADependence) {
    const PoisonReport report = poisoned(small_run, [](const AttentionArgs& args, const KernelConfig& config,
                                                       Fault fault, std::uint32_t word, const Sink& sink) {
        const std::uint16_t before = o_of(args)[7];
        const Launch launch = run_scalar(args, config, fault, word, sink);
        o_of(args)[7] = std::uint16_t(before ^ 1u);
        return launch;
    });
    EXPECT_EQ(verdict_of(report), PoisonVerdict::dependent);
    const StageDifference* changed = first_changed(report.first_changed_run()->stages);
    EXPECT_EQ(changed->stage, Stage::o);
    EXPECT_EQ(changed->changed, 1);
    EXPECT_EQ(changed->first->col, 7);
    EXPECT_EQ(report.outputs[0].unwritten, 0);
}

TEST(Poison, ARaceIsToldFromADependence) {
    static int calls = 0;
    calls = 0;
    const PoisonReport report = poisoned(small_run, [](const AttentionArgs& args, const KernelConfig& config,
                                                       Fault fault, std::uint32_t word, const Sink& sink) {
        const Launch launch = run_scalar(args, config, fault, word, sink);
        if (++calls == 3) sink.stages[int(Stage::l)].words[0] ^= 1u;
        return launch;
    });
    EXPECT_EQ(calls, 4);
    EXPECT_EQ(verdict_of(report), PoisonVerdict::not_repeatable);
    const StageDifference* changed = first_changed(report.first_changed_run()->stages);
    EXPECT_EQ(changed->stage, Stage::l);
    EXPECT_EQ(changed->changed, 1);
    const RunRequest request = request_of(small_run);
    EXPECT_NE(to_text(request, report).find("not repeatable: "), std::string::npos);
    EXPECT_EQ(nlohmann::json::parse(to_json(request, report))["verdict"], "not_repeatable");
}

TEST(Poison, WhatCannotBeComparedIsRefused) {
    EXPECT_THROW(run_poisoned(request_of(std::string(small_run) + " --sink-bytes 100k")), Error);
    EXPECT_THROW(repeat_runs(request_of(std::string(small_run) + " --sink-bytes 100k"), 2), Error);
}

}  // namespace
}  // namespace tilescope::testing
