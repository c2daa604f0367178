// What tile-diff makes of its arguments and of many recordings, function by function.

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "dump/cli/paths.h"
#include "dump/schema/error.h"
#include "oracle/cli/baseline.h"
#include "oracle/cli/judge_one.h"
#include "oracle/report/judged.h"
#include "oracle/report/list.h"
#include "oracle/report/markup.h"

namespace tilescope {
namespace {

JudgedRecording came_out(const std::string& recording, Came came, double wrong_share = 0) {
    JudgedRecording judged;
    judged.recording = recording;
    judged.came = came;
    judged.wrong_share = wrong_share;
    if (came == Came::diverged) {
        judged.stage = "acc";
        judged.place = "batch 0, head 0, row 3";
        judged.cause = "acc_not_rescaled";
    }
    return judged;
}

TEST(Judged, TheWorstExitCode) {
    const JudgedRecording match = came_out("a", Came::match);
    const JudgedRecording known = came_out("b", Came::known);
    const JudgedRecording diverged = came_out("c", Came::diverged);
    const JudgedRecording unjudged = came_out("d", Came::unjudged);
    EXPECT_EQ(exit_code_of(std::vector<JudgedRecording>()), 2);
    EXPECT_EQ(exit_code_of(std::vector{match, known}), 0);
    EXPECT_EQ(exit_code_of(std::vector{match, diverged, known}), 1);
    EXPECT_EQ(exit_code_of(std::vector{unjudged, diverged, match}), 2);
    EXPECT_EQ(counts_text(count_judged(std::vector{match, unjudged, match, known})),
              "4 recordings: 2 match, 1 known, 1 could not be judged");
    EXPECT_EQ(counts_text(count_judged(std::vector{diverged})), "1 recording: 1 diverged");
}

TEST(Judged, SurvivesTheWayFromOneProcessToAnother) {
    Answer answer;
    answer.judged = came_out(std::string("a:1\n\0b", 6), Came::diverged, 0.1);
    answer.judged.seconds = 1.0 / 3;
    answer.text = "12:text";
    answer.reports = {"", "{}", "3:x"};
    const Answer same = unpacked(packed(answer));
    EXPECT_EQ(same.judged.recording, answer.judged.recording);
    EXPECT_EQ(same.judged.came, Came::diverged);
    EXPECT_EQ(same.judged.place, answer.judged.place);
    EXPECT_EQ(same.judged.wrong_share, 0.1);
    EXPECT_EQ(same.judged.seconds, 1.0 / 3);
    EXPECT_EQ(same.text, answer.text);
    EXPECT_EQ(same.complaint, "");
    EXPECT_EQ(same.reports, answer.reports);
}

TEST(List, LinesAreAsWideAsTheyMayBe) {
    JudgedRecording judged = came_out("runs/" + std::string(40, 'x') + "/\u00e9nd.h5", Came::diverged);
    judged.seconds = 12.345;
    for (const std::size_t columns : {70u, 80u, 100u, 200u}) {
        const std::string line = list_line(judged, list_layout(columns, 52, false));
        EXPECT_LE(columns_of(line), columns + 1) << line;
        EXPECT_NE(line.find("/\u00e9nd.h5  acc "), std::string::npos) << line;
        EXPECT_TRUE(line.ends_with(" 12.35 s\n") || line.ends_with(" 12.34 s\n")) << line;
    }
    EXPECT_EQ(list_line(came_out("a.h5", Came::match), list_layout(80, 4, false)),
              "match     a.h5  " + std::string(6 + 2 + 40 + 2, ' ') + "  0.00 s\n");
    EXPECT_TRUE(list_line(came_out("a.h5", Came::match), list_layout(80, 4, true))
                    .starts_with("\033[32mmatch   \033[0m  a.h5"));
}

TEST(List, NamesStayOnTheirLine) {
    EXPECT_EQ(list_text(std::vector{came_out("a\nb\033[31m.h5", Came::match)}).find_first_of("\033"),
              std::string::npos);
    EXPECT_EQ(markup_escaped("<a b='\"c\"'>&\x01\xff"), "&lt;a b=&#39;&quot;c&quot;&#39;&gt;&amp;??");
}

constexpr std::string_view known_text =
    "# why\n\n[runs/a.h5]\n stage = acc \nplace = batch 0, head 0, row 3\ncause=acc_not_rescaled\nreason = a "
    "= b # c\n";

TEST(BaselineOf, IsReadAsItIsWritten) {
    const Baseline baseline = parse_baseline("known", known_text);
    ASSERT_EQ(baseline.known.size(), 1u);
    EXPECT_EQ(baseline.known[0].recording, "runs/a.h5");
    EXPECT_EQ(baseline.known[0].stage, "acc");
    EXPECT_EQ(baseline.known[0].reason, "a = b # c");
    EXPECT_EQ(baseline.known[0].first_line, 3u);
    EXPECT_EQ(baseline.known[0].last_line, 7u);
    const std::vector all = {came_out("/x/runs/a.h5", Came::diverged), came_out("b.h5", Came::match)};
    const Baseline again = parse_baseline("known", baseline_text(all, baseline));
    ASSERT_EQ(again.known.size(), 1u);
    EXPECT_EQ(again.known[0].recording, "a.h5");
    EXPECT_EQ(again.known[0].reason, "a = b # c");
    EXPECT_TRUE(parse_baseline("known", "").known.empty());
}

TEST(BaselineOf, AcceptsWhatItSays) {
    const Baseline baseline = parse_baseline("known", known_text);
    for (const std::string recording : {"runs/a.h5", "/x/runs/a.h5", "./runs/a.h5"})
        EXPECT_NE(find_known(baseline, came_out(recording, Came::diverged)), nullptr) << recording;
    for (const std::string recording : {"a.h5", "xruns/a.h5", "runs/a.h5x", "runs/b.h5"})
        EXPECT_EQ(find_known(baseline, came_out(recording, Came::diverged)), nullptr) << recording;
    EXPECT_EQ(find_known(baseline, came_out("runs/a.h5", Came::unjudged)), nullptr);
    for (std::string JudgedRecording::*field : {&JudgedRecording::stage, &JudgedRecording::place,
                                                &JudgedRecording::cause, &JudgedRecording::wrong_too}) {
        JudgedRecording other = came_out("runs/a.h5", Came::diverged);
        other.*field = "o";
        EXPECT_EQ(find_known(baseline, other), nullptr);
    }
}

TEST(BaselineOf, SaysWhichLineIsWrong) {
    const std::string text = "[a.h5]\nstage = s\nreason = x\n[b.h5]\nstage = s\nreason =\n";
    try {
        parse_baseline("known", text);
        FAIL();
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(),
                     "known:4: b.h5 has no reason; write reason = and why this divergence is accepted");
    }
}

class Paths : public testing::Test {
 protected:
    Paths() {
        folder_ = std::filesystem::temp_directory_path() / ("judging_test_" + std::to_string(::getpid()));
        for (const char* const name : {"b.h5", "a.h5", "c/d.h5", "c/.h5", "c/e.txt"}) {
            std::filesystem::create_directories((folder_ / name).parent_path());
            std::ofstream(folder_ / name) << name;
        }
    }
    ~Paths() override { std::filesystem::remove_all(folder_); }

    std::vector<std::string> found(const std::vector<std::string>& paths, const std::string& input = "") {
        std::istringstream names(input);
        std::vector<std::string> relative;
        for (const FoundPath& one : find_recordings(with_names(paths, names)))
            relative.push_back(one.wrong.empty()
                                   ? std::filesystem::path(one.path).lexically_relative(folder_).string()
                                   : "wrong: " + one.wrong);
        return relative;
    }
    std::string in(const std::string& name) const { return (folder_ / name).string(); }

    std::filesystem::path folder_;
};

TEST_F(Paths, OfFoldersAreSorted) {
    using Names = std::vector<std::string>;
    EXPECT_EQ(found({in("")}), (Names{"a.h5", "b.h5", "c/d.h5"}));
    EXPECT_EQ(found({in("c"), in("")}), (Names{"c/d.h5", "a.h5", "b.h5"}));
    EXPECT_EQ(found({in("b.h5"), in("c/../b.h5"), in("missing.h5")}), (Names{"b.h5", "missing.h5"}));
    EXPECT_EQ(found({"-", in("b.h5")}, in("c") + "\n" + in("b.h5")), (Names{"c/d.h5", "b.h5"}));
    EXPECT_EQ(
        found({"-"}),
        Names{"wrong: standard input: names no recording; write the names of recordings to it, a line each"});
}

TEST_F(Paths, LinksThatLeadBackEnd) {
    std::filesystem::create_directory_symlink("..", folder_ / "c" / "back");
    EXPECT_EQ(found({in("")}), (std::vector<std::string>{"a.h5", "b.h5", "c/d.h5"}));
    EXPECT_TRUE(is_one_file(in("a.h5")));
    EXPECT_TRUE(is_one_file(in("missing.h5")));
    EXPECT_FALSE(is_one_file(in("c")));
    EXPECT_FALSE(is_one_file("-"));
}

}  // namespace
}  // namespace tilescope
