// A search for causes costs no verdict: what fails in one of its parts, or is cut off, costs that part alone, and the same
// recording gets the same answer from any number of threads.

#include "oracle/causes/attempts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iterator>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "oracle/causes/suggest.h"
#include "oracle/causes/table.h"
#include "oracle/check.h"
#include "oracle/report/judged.h"
#include "oracle/report/text.h"
#include "tests/oracle/honest_kernel.h"
#include "tests/oracle/passes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {
namespace {

constexpr std::uint64_t seed = 44;

/// Which of some parts come to their end, as the rule has it: none beyond what one or those before it together may do.
std::vector<bool> that_come_to_their_end(const std::vector<std::int64_t>& work, std::int64_t of_one,
                                         std::int64_t of_all) {
    std::vector<bool> ends;
    std::int64_t together = 0;
    for (const std::int64_t units : work) {
        // A part is cut off by the step that is too many, and where it has used up what it may do.
        together += std::min(units, of_one + 1);
        ends.push_back(units < of_one && together <= of_all);
        if (together > of_all) together = of_all + 1;
    }
    return ends;
}

TEST(Attempts, EndWhereTheirOrderSaysWhateverThreadsDo) {
    constexpr std::int64_t step = 10'000;
    std::mt19937 random(seed);
    for (int round = 0; round < 8; ++round) {
        std::vector<std::int64_t> work(24);
        for (std::int64_t& steps : work) steps = std::int64_t(random() % 100);
        const std::vector<bool> expected = that_come_to_their_end(work, 80, 800);
        for (const int threads : {1, 2, 4}) {
            Attempts attempts(800 * step, {}, {});
            const std::vector<bool> ends = attempts.each(
                work.size(), threads, 0.1, 1, [](std::size_t) { return "part"; },
                [&](std::size_t i) {
                    if (i % 5 == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
                    for (std::int64_t done = 0; done < work[i]; ++done) spend(step);
                    return false;
                });
            EXPECT_EQ(ends, expected) << threads << " threads; seed " << seed;
            EXPECT_TRUE(attempts.end().cut_off);
            EXPECT_TRUE(attempts.end().failed.empty());
        }
    }
}

/// Something of each kind that can be thrown.
void fail(std::size_t kind) {
    if (kind % 3 == 0) throw std::bad_alloc();
    if (kind % 3 == 1) throw std::runtime_error("made to fail");
    throw 3;
}

/// What a search was made to fail in, by the name of the part.
class FailingParts {
 public:
    /// `fails`: those that do.
    explicit FailingParts(std::function<bool(std::string_view)> fails) : fails_(std::move(fails)) {}

    CauseOptions options() {
        CauseOptions options;
        options.threads = 1;
        options.begins = [this](std::string_view part) {
            begun_.insert(std::string(part));
            if (fails_(part)) fail(failed_++);
        };
        return options;
    }
    const std::set<std::string>& begun() const { return begun_; }
    std::size_t failed() const { return failed_; }

 private:
    std::function<bool(std::string_view)> fails_;
    std::set<std::string> begun_;
    std::size_t failed_ = 0;
};

/// Of one head, so that a search is short. `keys`: lengths of batch entries.
Call small_call(Direction direction, const std::vector<std::int64_t>& keys = {}) {
    Problem problem = one_entry(keys.empty() ? Mask::causal : Mask::none, direction);
    problem.heads = problem.heads_kv = 1;
    problem.seqlen_q = 24;
    problem.seqlen_kv = 40;
    Call call = make_call(problem, seed);
    call.inputs.side.seqlens_kv = keys;
    return call;
}

/// A run in which the stage diverges by numbers that no cause explains.
MemoryRecording spoilt(Stage stage, Direction direction, const std::vector<std::int64_t>& keys = {}) {
    const Call call = small_call(direction, keys);
    MemoryRecording run = recorded(call);
    change_stage(run, stage, [](float value, const TileId&, std::int64_t row, std::int64_t col) {
        return value * float(1 + 0.1 * double((row * 37 + col * 101) % 17));
    });
    return run;
}

/// Whether the report says that it diverges, in each of its languages, and what failed.
void expect_told(const Report& report) {
    const std::string text = to_text(report);
    EXPECT_NE(text.find("diverged: "), std::string::npos) << text;
    EXPECT_NE(text.find("a part of the search failed: "), std::string::npos) << text;
    const nlohmann::json json = nlohmann::json::parse(to_json(report));
    EXPECT_EQ(json["verdict"], "diverged");
    EXPECT_EQ(json["search"]["failed"].size(), report.diagnosis.end.failed.size());
    const JudgedRecording of_many = judged_of(report);
    EXPECT_EQ(exit_code_of(of_many.came), 1);
    EXPECT_NE(of_many.headline.find("a part of the search failed: "), std::string::npos) << of_many.headline;
    EXPECT_EQ(of_many.headline.find('\n'), std::string::npos);
}

bool is_cause(std::string_view part) {
    return std::ranges::count(all_causes(), part, &Cause::name) > 0;
}

TEST(Attempts, CostNoVerdictWhateverCauseFails) {
    std::set<std::string> begun;
    for (const Direction direction : {Direction::forward, Direction::backward}) {
        for (const StageInfo& info : stages_of(direction)) {
            SCOPED_TRACE(info.name);
            const MemoryRecording run = spoilt(info.stage, direction);
            Report report = judged(run);
            ASSERT_EQ(report.guilty, info.stage) << verdict_line(report);
            FailingParts failing(is_cause);
            report.diagnosis = find_causes(run, report, failing.options());
            EXPECT_EQ(report.diagnosis.end.failed.size(), failing.failed());
            EXPECT_FALSE(report.diagnosis.tried_all());
            begun.insert(failing.begun().begin(), failing.begun().end());
            expect_told(report);
            EXPECT_EQ(causes_text(report).find("no known cause"), std::string::npos) << causes_text(report);
        }
    }
    for (const Cause& cause : all_causes()) {
        const bool is_searched = !cause.structural && cause.candidates;
        EXPECT_TRUE(!is_searched || begun.contains(std::string(cause.name))) << cause.name;
    }
}

TEST(Attempts, CostNoVerdictWhateverElseFails) {
    MemoryRecording run = spoilt(Stage::s, Direction::forward);
    change_stage(run, Stage::l, [](float value, const TileId&, std::int64_t row, std::int64_t) {
        return row % 3 == 1 ? 1.25F * value : value;
    });
    for (std::size_t number = 0; number < std::size_t(SearchPart::count); ++number) {
        const auto part = SearchPart(number);
        if (part == SearchPart::prediction) continue;  // tile-diff alone asks for it
        SCOPED_TRACE(name_of(part));
        Report report = judged(run);
        const bool is_declaration = part == SearchPart::declarations;
        FailingParts failing([&](std::string_view begins) {
            return begins == name_of(part) || (part != SearchPart::declarations && is_cause(begins));
        });
        report.diagnosis = is_declaration ? declarations_of(run, report, failing.options())
                                          : find_causes(run, report, failing.options());
        EXPECT_TRUE(failing.begun().contains(std::string(name_of(part))));
        EXPECT_EQ(report.diagnosis.end.failed.size(), failing.failed());
        // Of what has no causes to look for the headline says so alone.
        report.diagnosis.searched = true;
        expect_told(report);
    }
}

TEST(Attempts, AnEmptyTileIsNoReasonToFail) {
    for (const Stage stage : {Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse}) {
        const MemoryRecording whole = spoilt(stage, Direction::forward, {10});
        ASSERT_GT(whole.problem().kv_tiles(), 1 + 10 / whole.problem().block_n);
        const MemoryRecording part = with_stages(whole, {Stage::p, Stage::l, stage});
        for (const MemoryRecording* run : {&whole, &part}) {
            const Checked checked = check(*run);
            EXPECT_EQ(checked.exit_code, 1) << checked.report;
            const std::string verdict =
                "diverged: " + std::string(stage_info(stage).name) + " is the first wrong stage";
            EXPECT_NE(checked.report.find(verdict), std::string::npos) << checked.report;
            EXPECT_EQ(checked.report.find("search failed"), std::string::npos) << checked.report;
        }
    }
}

TEST(Attempts, EndWhereTheSearchIsCancelled) {
    struct Cancelled {};
    const MemoryRecording run = spoilt(Stage::s, Direction::forward);
    const Report report = judged(run);
    for (const int calls : {0, 1, 40, 400}) {
        std::atomic<int> left = calls;
        CauseOptions options;
        options.threads = 2;
        options.check = [&] {
            if (left-- == 0) throw Cancelled();
        };
        EXPECT_THROW(causes_and_declarations(run, report, options), Cancelled) << calls;
    }
}

/// What is said of a search that may do so much, by so many threads.
std::string said(const MemoryRecording& run, std::int64_t effort, int threads) {
    Report report = judged(run);
    CauseOptions options;
    options.threads = threads;
    options.effort = effort;
    report.diagnosis = causes_and_declarations(run, report, options);
    return to_json(report) + to_text(report);
}

TEST(Attempts, GiveTheSameAnswerFromAnyNumberOfThreads) {
    const MemoryRecording runs[] = {spoilt(Stage::s, Direction::forward),
                                    with_stages(spoilt(Stage::o, Direction::forward), {Stage::o, Stage::lse}),
                                    recorded(small_call(Direction::forward), {Mistake::acc_not_rescaled}),
                                    spoilt(Stage::ds, Direction::backward)};
    std::size_t cut_off = 0;
    for (const MemoryRecording& run : runs) {
        for (const std::int64_t effort : {std::int64_t(200'000), std::int64_t(3'000'000)}) {
            const std::string one = said(run, effort, 1);
            for (const int threads : {2, 4}) EXPECT_EQ(said(run, effort, threads), one) << effort;
            cut_off += one.find("\"cut_off\": true") != std::string::npos;
            EXPECT_EQ(one.find("the search was cut off") != std::string::npos,
                      one.find("\"cut_off\": true") != std::string::npos);
        }
    }
    EXPECT_GE(cut_off, std::size(runs));
}

TEST(Attempts, ACutOffSearchSaysNothingOfWhatItDidNotTry) {
    Report report = judged(spoilt(Stage::s, Direction::forward));
    CauseOptions options;
    options.effort = 1000;
    options.threads = 1;
    report.diagnosis = find_causes(spoilt(Stage::s, Direction::forward), report, options);
    ASSERT_TRUE(report.diagnosis.end.cut_off);
    ASSERT_TRUE(report.diagnosis.causes.empty() || report.diagnosis.causes[0].structural);
    EXPECT_FALSE(report.diagnosis.tried_all());
    EXPECT_EQ(report.diagnosis.answers.front().kind, AnswerKind::not_searched);
    const std::string text = to_text(report);
    EXPECT_NE(text.find("--search-all"), std::string::npos) << text;
    EXPECT_EQ(text.find("no known cause explains"), std::string::npos) << text;
}

}  // namespace
}  // namespace tilescope::test
