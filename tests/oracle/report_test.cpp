// The report as text and as JSON.

#include "oracle/judge/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "oracle/judge.h"
#include "oracle/judge/verdict.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::size_t screen_columns = 110;
constexpr std::size_t screen_lines = 40;

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
}

void expect_fits_a_screen(const std::string& text) {
    const std::vector<std::string> lines = lines_of(text);
    EXPECT_LE(lines.size(), screen_lines) << text;
    // The verdict is one sentence on one line, however long.
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) EXPECT_LE(lines[i].size(), screen_columns) << lines[i];
    EXPECT_LE(lines.back().size(), 2 * screen_columns) << lines.back();
}

/// Every stage of a large problem as wrong as it can be, everywhere.
Report crowded_report() {
    Report report;
    report.recording = "a/long/path/to/the/recording/of/a/kernel/run.h5";
    report.provenance.kernel = "wmma 48x64 fault l_not_rescaled";
    report.provenance.device = "NVIDIA H200";
    Problem& p = report.problem;
    p.batch = 16;
    p.heads = p.heads_kv = 128;
    p.seqlen_q = p.seqlen_kv = 131072;
    p.head_dim = p.head_dim_v = 128;
    p.block_m = p.block_n = 128;
    p.mask = Mask::causal;
    p.window_left = 4096;
    p.window_right = 0;
    report.verdict = Verdict::diverged;
    report.guilty = Stage::k;
    report.warnings = {
        "12345 writes of acc were outside the problem: check the coordinates that the hook is given"};
    for (const StageInfo& info : stages_of(Direction::forward)) {
        StageReport& stage = report.stages[std::size_t(info.stage)];
        stage.captured = true;
        StageTally& t = stage.tally;
        const Element element{Finding::outside, {15, 127, 1023, 1023}, 131071,  127,
                              -1.23456789e-30,  -9.87654321e+30,       1.23e-20};
        t.compared = 16LL * 128 * 131072;
        t.outside = t.nan = t.infinite = t.unwritten = t.conflicting = t.inherited = 1234567;
        t.max_abs = 1.23e-30;
        t.max_ulp = 1234567890;
        t.first = t.first_nan = t.first_infinite = t.first_unwritten = element;
        t.worst.assign(5, element);
        for (std::int64_t head = 0; head < 128; ++head) {
            for (std::int64_t row = 100000; row < 131072; row += 3) t.bad_rows.push_back({15, head, row, 1});
        }
    }
    report.first_divergence = report.stages[std::size_t(Stage::k)].tally.first;
    report.drift.assign(1024, Drift{1.23e-30, std::numeric_limits<double>::infinity(), 1.23e+30});
    return report;
}

TEST(ReportText, FitsAScreenHoweverMuchIsWrong) {
    Report report = crowded_report();
    for (const StageInfo& info : stages_of(Direction::forward)) {
        report.guilty = info.stage;
        SCOPED_TRACE(info.name);
        expect_fits_a_screen(to_text(report));
    }
}

TEST(ReportText, FitsAScreenForEveryMistake) {
    std::vector<Mistake> mistakes = mistakes_of(Direction::forward);
    mistakes.push_back(Mistake::none);
    for (const Mistake mistake : mistakes) {
        const bool of_keys = mistake == Mistake::stale_k_tile || mistake == Mistake::swapped_v_tile;
        const Problem problem = small_problem(Mask::causal);
        const MemoryRecording run = recorded(make_call(problem, 71), {mistake, -1, -1, -1, of_keys ? 1 : 0});
        expect_fits_a_screen(to_text(judged(run)));
    }
}

TEST(ReportText, LastLineIsTheVerdict) {
    const Problem problem = small_problem();
    const Inputs inputs = make_inputs(problem, InputKind::normal, 72);
    const Report healthy = judged(recorded({problem, {}, inputs}));
    EXPECT_EQ(lines_of(to_text(healthy)).back(), verdict_line(healthy));
    EXPECT_EQ(verdict_line(healthy).rfind("match", 0), 0u);
    const Report wrong = judged(recorded({problem, {}, inputs}, {Mistake::p_clamped, 1, 3, 21, 2}));
    const std::string last = lines_of(to_text(wrong)).back();
    EXPECT_EQ(last, verdict_line(wrong));
    EXPECT_EQ(last.rfind("diverged: p ", 0), 0u);
    for (const char* part : {"batch 1", "head 3", "row 21", "KV tile 2"})
        EXPECT_NE(last.find(part), std::string::npos) << last;
}

TEST(ReportText, NamesWhatTheCallDoesBeyondPlainAttention) {
    Problem problem = small_problem(Mask::causal);
    problem.window_left = 5;
    problem.window_bounds = WindowBounds::exclusive;
    problem.logits_soft_cap = 30;
    problem.alibi = Alibi::distance;
    problem.sink = AttentionSink::last;
    problem.kv_tiles_per_split = 2;
    Units units;
    units.kv_order = KvOrder::reverse;
    units.p_scale = 448;
    MemoryRecording recording(problem, units);
    SideInputs side;
    side.alibi_slopes.assign(4, 0.5F);
    side.sink.assign(4, 1);
    side.seqlens_kv = {72, 10};
    side.descale_k.values = {2};
    recording.set_side_inputs(side);
    recording.set_bias({.values = {0.25F}});
    const std::vector<std::string> expected = {"window 5, -1 exclusive",
                                               "soft cap 30",
                                               "ALiBi, by distance",
                                               "bias",
                                               "sink last",
                                               "lengths by batch entry",
                                               "descales of k",
                                               "P times 448",
                                               "splits of 2 KV tiles",
                                               "KV tiles in reverse"};
    EXPECT_EQ(options_of(recording), expected);
    EXPECT_TRUE(options_of(MemoryRecording(small_problem())).empty());
}

TEST(ReportText, NaNHasNoSign) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, 72));
    poke(run, Stage::s, {0, 0, 0, 0}, 1, 2, -nan);
    const std::string text = to_text(judged(run));
    EXPECT_NE(text.find("got nan"), std::string::npos);
    EXPECT_EQ(text.find("-nan"), std::string::npos);
}

TEST(ReportText, NamesFromAStrangerCannotMoveTheCursorOrAddLines) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, 73));
    const std::size_t lines = lines_of(to_text(judged(run))).size();
    Provenance stranger;
    stranger.kernel = "evil\nmatch: all is well\r\033[2J";
    stranger.device = "a\nb";
    run.set_provenance(stranger);
    const std::string text = to_text(judged(run));
    EXPECT_EQ(lines_of(text).size(), lines);
    EXPECT_EQ(text.find('\033'), std::string::npos);
}

TEST(ReportJson, HoldsWhatProgramsReadFromIt) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, 74));
    poke(run, Stage::s, {1, 2, 1, 3}, 4, 5, 100);
    const Report report = judged(run);
    const auto json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["verdict"], "diverged");
    const auto& first = json["first_divergence"];
    EXPECT_EQ(first["stage"], "s");
    EXPECT_EQ(first["batch"], 1);
    EXPECT_EQ(first["head"], 2);
    EXPECT_EQ(first["row"], 20);
    EXPECT_EQ(first["col"], 53);
    EXPECT_EQ(first["kv_tile"], 3);
    EXPECT_EQ(first["got"], 100.0);
    EXPECT_EQ(first["expected"].get<double>(), report.first_divergence->expected);
    EXPECT_EQ(first["tolerance"].get<double>(), report.first_divergence->tolerance);
    ASSERT_EQ(json["stages"].size(), stages_of(Direction::forward).size());
    for (const StageInfo& info : stages_of(Direction::forward)) {
        const auto& stage = json["stages"][std::size_t(info.stage)];
        const StageTally& tally = report.stage(info.stage).tally;
        EXPECT_EQ(stage["name"], info.name);
        EXPECT_EQ(stage["compared"], tally.compared);
        EXPECT_EQ(stage["outside"], tally.outside);
        EXPECT_EQ(stage["nonfinite"], tally.nan + tally.infinite);
        EXPECT_EQ(stage["unwritten"], tally.unwritten);
        EXPECT_EQ(stage["max_abs"].get<double>(), tally.max_abs);
        EXPECT_EQ(stage["max_ulp"], tally.max_ulp);
        EXPECT_EQ(stage["inherited"], tally.inherited);
    }
    EXPECT_EQ(json["drift"]["l"].size(), std::size_t(problem.kv_tiles()));
    EXPECT_EQ(json["drift"]["m"][0].get<double>(), report.drift[0].m);
}

TEST(ReportJson, MatchHasNoDivergence) {
    const Problem problem = small_problem();
    const MemoryRecording run = recorded(make_call(problem, 75));
    const auto json = nlohmann::json::parse(to_json(judged(run)));
    EXPECT_EQ(json["verdict"], "match");
    EXPECT_TRUE(json["first_divergence"].is_null());
}

TEST(ReportJson, NumbersThatAreNotFiniteAreStrings) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, 76));
    poke(run, Stage::l, {0, 0, 0, 1}, 0, 0, nan);
    poke(run, Stage::lse, {0, 0, 0, 0}, 1, 0, -infinity);
    const auto json = nlohmann::json::parse(to_json(judged(run)));
    EXPECT_EQ(json["first_divergence"]["got"], "nan");
    EXPECT_EQ(json["drift"]["l"][1], "inf");
    EXPECT_EQ(json["stages"][std::size_t(Stage::lse)]["first_inf"]["got"], "-inf");
}

TEST(ReportJson, TextThatIsNotUtf8IsReplaced) {
    const Problem problem = small_problem();
    MemoryRecording run = recorded(make_call(problem, 77));
    run.set_name("run\xff.h5");
    Provenance stranger;
    stranger.kernel = "\xc3\x28";
    run.set_provenance(stranger);
    EXPECT_EQ(nlohmann::json::parse(to_json(judged(run)))["verdict"], "match");
    EXPECT_EQ(nlohmann::json::parse(unjudged_json("run\xff.h5", "\xff"))["verdict"], "unjudged");
}

TEST(ReportJson, UnjudgedHasTheSameShape) {
    const auto json = nlohmann::json::parse(unjudged_json("run.h5", "why"));
    EXPECT_EQ(json["verdict"], "unjudged");
    EXPECT_EQ(json["reason"], "why");
    for (const char* key : {"first_divergence", "stages", "drift"}) EXPECT_TRUE(json.contains(key)) << key;
}

}  // namespace
}  // namespace tilescope::test
