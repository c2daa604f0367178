#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/attention/registry.h"
#include "kernels/run/reports.h"
#include "tests/kernels/run_checks.h"

namespace tilescope::testing {
namespace {

constexpr const char* small_run = "--kernel scalar --engine cpu --shape 1,2,40,70,64";

/// Races: the second and the fourth run have another l in row 0 of head 0 after KV tile 0, the fourth another
/// element of o besides.
Launch racing_kernel(const AttentionArgs& args, const KernelConfig& config, Fault fault, std::uint32_t word,
                     const Sink& sink) {
    static int calls = 0;
    const Launch launch = find_kernel("scalar")->cpu.hooked->launch(args, config, fault, word, sink);
    const int call = ++calls;
    if (call % 2 == 0) sink.stages[int(Stage::l)].words[0] ^= 1u;
    if (call == 4) static_cast<std::uint16_t*>(args.o)[(40 + 33) * 64 + 9] ^= 1u;
    return launch;
}

TEST(Repeat, HealthyRunsHaveTheSameBits) {
    const RunRequest request = request_of(small_run);
    const RepeatReport report = repeat_runs(request, 3);
    EXPECT_EQ(report.runs, 3);
    EXPECT_EQ(report.changed_runs, 0);
    EXPECT_EQ(first_changed(report), nullptr);
    EXPECT_EQ(report.stages.size(), 10u);
    for (const RepeatedStage& stage : report.stages) EXPECT_GT(stage.compared, 0);
    EXPECT_NE(to_text(request, report).find("\nrepeatable: "), std::string::npos);
    const nlohmann::json json = nlohmann::json::parse(to_json(request, report));
    EXPECT_EQ(json["verdict"], "repeatable");
    EXPECT_EQ(json["runs"], 3);
    EXPECT_TRUE(json["first_change"].is_null());
}

TEST(Repeat, ARaceIsReportedWithItsFirstStageAndRuns) {
    KernelInfo racing = *find_kernel("scalar");
    const CpuBuild build = {racing_kernel};
    racing.cpu.hooked = &build;
    RunRequest request = request_of(small_run);
    request.kernel = &racing;
    const RepeatReport report = repeat_runs(request, 5);
    EXPECT_EQ(report.changed_runs, 2);
    const RepeatedStage* first = first_changed(report);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(first->stage, Stage::l);
    EXPECT_EQ(first->changed_runs, 2);
    EXPECT_EQ(first->most_changed, 1);
    EXPECT_EQ(first->first_run, 2);
    EXPECT_EQ(first->first->tile, TileId());
    EXPECT_EQ(first->first->row, 0);
    const auto o = std::ranges::find(report.stages, Stage::o, &RepeatedStage::stage);
    EXPECT_EQ(o->changed_runs, 1);
    EXPECT_EQ(o->first_run, 4);
    EXPECT_EQ(o->first->tile, (TileId{0, 1, 1, 0}));
    EXPECT_EQ(o->first->row, 33);
    EXPECT_EQ(o->first->col, 9);

    const std::string text = to_text(request, report);
    EXPECT_NE(text.find("not repeatable: 2 of 4 runs differ from the first; l is the first stage that "
                        "changes, in run 2 at batch 0, head 0, q block 0, row 0, KV tile 0\n"),
              std::string::npos)
        << text;
    const nlohmann::json json = nlohmann::json::parse(to_json(request, report));
    EXPECT_EQ(json["verdict"], "not_repeatable");
    EXPECT_EQ(json["changed_runs"], 2);
    EXPECT_EQ(json["first_change"]["stage"], "l");
    EXPECT_EQ(json["first_change"]["run"], 2);
    EXPECT_NE(json["first_change"]["first_run"]["bits"], json["first_change"]["this_run"]["bits"]);
}

TEST(InertReport, ShowsTheFiguresOfBothBuilds) {
    InertProof proof;
    proof.compared = 10240;
    proof.hooked = {96, 24, 16, 50688, 0};
    proof.plain = {80, 0, 16, 50688, 0};
    proof.plain_ms = 2.0;
    proof.unarmed_ms = 2.05;
    proof.capturing_ms = 7.0;
    const RunRequest request = request_of(small_run);
    EXPECT_EQ(to_text(request, proof),
              "                                    with hooks      without\n"
              "registers                                   96           80\n"
              "local bytes                                 24            0\n"
              "static shared bytes                         16           16\n"
              "dynamic shared bytes                     50688        50688\n"
              "constant bytes                               0            0\n"
              "time, nothing selected               2.0500 ms    2.0000 ms   1.025 x\n"
              "time, capturing what is selected     7.0000 ms    2.0000 ms   3.500 x\n"
              "scalar 32x64x2 head_dim 64: o and lse have the same 10240 bytes with and without hooks\n");
    nlohmann::json json = nlohmann::json::parse(to_json(request, proof));
    EXPECT_EQ(json["verdict"], "inert");
    EXPECT_EQ(json["with_hooks"]["registers"], 96);
    EXPECT_EQ(json["with_hooks"]["local_bytes"], 24);
    EXPECT_EQ(json["without_hooks"]["dynamic_shared_bytes"], 50688);
    EXPECT_EQ(json["with_hooks"]["nothing_selected_ms"], 2.05);
    EXPECT_EQ(json["with_hooks"]["capturing_ms"], 7.0);
    EXPECT_EQ(json["without_hooks"]["ms"], 2.0);

    proof.different = 3;
    proof.first_difference = "o, byte 12";
    EXPECT_NE(to_text(request, proof)
                  .find("the hooks change 3 of 10240 bytes of o and lse, the first in o, byte 12"),
              std::string::npos);
    json = nlohmann::json::parse(to_json(request, proof));
    EXPECT_EQ(json["verdict"], "not_inert");
    EXPECT_EQ(json["bytes_different"], 3);
    EXPECT_EQ(json["first_difference"], "o, byte 12");
}

}  // namespace
}  // namespace tilescope::testing
