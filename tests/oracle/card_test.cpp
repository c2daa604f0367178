// The report at a glance. Expected sentences are written by hand.

#include "oracle/report/card.h"

#include <gtest/gtest.h>

namespace tilescope::test {
namespace {

/// acc is wrong by itself, o inherits, q and k were not recorded, and everything else is right.
Report acc_is_wrong() {
    Report report;
    Problem& p = report.problem;
    p.batch = 2;
    p.heads = p.heads_kv = 3;
    p.seqlen_q = 8;
    p.seqlen_kv = 12;
    p.head_dim = p.head_dim_v = 4;
    p.block_m = 4;
    p.block_n = 4;
    report.verdict = Verdict::diverged;
    report.guilty = Stage::acc;
    for (const Stage stage :
         {Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::o, Stage::lse}) {
        StageReport& part = report.stages[std::size_t(stage)];
        part.captured = true;
        part.tally.compared = 100;
    }
    report.stages[std::size_t(Stage::acc)].tally.outside = 5;
    report.stages[std::size_t(Stage::o)].tally.inherited = 5;
    report.first_divergence = Element{Finding::outside, {1, 2, 0, 1}, 3, 0, 4.5, 3.4, 1e-5};
    return report;
}

std::vector<BadRow>& bad_rows_of(Report& report, Stage stage) {
    return report.stages[std::size_t(stage)].tally.bad_rows;
}

void add_rows(Report& report, Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
              std::int64_t last) {
    for (std::int64_t row = first; row <= last; ++row)
        bad_rows_of(report, stage).push_back({batch, head, row, 1});
}

FoundCause cause_of(std::string_view name, int rank) {
    FoundCause cause;
    cause.name = name;
    cause.says = "the accumulator is not rescaled";
    cause.look_at = "acc *= alpha";
    cause.stage = cause.observed = Stage::acc;
    cause.explained_before = 0.25;
    cause.explained_after = 1;
    cause.elements = 400;
    cause.where = "everywhere";
    cause.rank = rank;
    return cause;
}

TEST(Card, SaysWhichRowsAreWrong) {
    Report report = acc_is_wrong();
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "");
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "row 3 of batch 1, head 2");
    add_rows(report, Stage::acc, 1, 2, 5, 6);
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "rows 3, 5-6 of batch 1, head 2");

    bad_rows_of(report, Stage::acc).clear();
    add_rows(report, Stage::acc, 0, 1, 0, 7);
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "every row of batch 0, head 1");
    add_rows(report, Stage::acc, 1, 1, 0, 7);
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "every row of 2 of 6 heads");
    bad_rows_of(report, Stage::acc).pop_back();
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "15 rows of 2 of 6 heads");

    bad_rows_of(report, Stage::acc).clear();
    for (std::int64_t batch = 0; batch < 2; ++batch)
        for (std::int64_t head = 0; head < 3; ++head) add_rows(report, Stage::acc, batch, head, 0, 7);
    EXPECT_EQ(bad_rows_text(report, Stage::acc), "every row");

    report.problem.batch = 1;
    report.problem.heads = report.problem.heads_kv = 1;
    add_rows(report, Stage::k, 0, 0, 0, 10);
    EXPECT_EQ(bad_rows_text(report, Stage::k), "keys 0-10");
    add_rows(report, Stage::k, 0, 0, 11, 11);
    EXPECT_EQ(bad_rows_text(report, Stage::k), "every key");
}

TEST(Card, SaysWhatIsWrongAndWhy) {
    Report report = acc_is_wrong();
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    const std::string where = "acc is wrong in row 3 of batch 1, head 2, first in KV tile 1: ";
    Diagnosis diagnosis;
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::not_yet).headline,
              where + "its cause is being searched");
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::no).headline, where + "its cause was not searched");
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).headline, where + "no known cause explains it");

    diagnosis.causes = {cause_of("acc_not_rescaled", 1), cause_of("acc_late", 1), cause_of("acc_other", 2)};
    for (const Stage stage : {Stage::acc, Stage::lse}) diagnosis.answers.emplace_back().stage = stage;
    const Card card = card_of(report, diagnosis, CausesKnown::yes);
    EXPECT_EQ(card.headline, where + "the accumulator is not rescaled");
    EXPECT_EQ(card.evidence,
              "acc_not_rescaled: explains 100 % of 400 elements, healthy replay 25 %; everywhere");
    EXPECT_EQ(card.look_at, "acc *= alpha");
    EXPECT_EQ(card.also, "as good: acc_late; lse is wrong too, unexplained");
}

TEST(Card, SaysWhoseElementsAreWrong) {
    Report report = acc_is_wrong();
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    Diagnosis diagnosis;
    WrongThreads threads;
    threads.warps = {{true, true}, {true, true}};
    threads.lanes = {{true, true, true, true}, {false, true, false, false}};
    threads.registers = {{true}, {true}};
    threads.warps_of_block = 2;
    threads.elements = 1;
    diagnosis.threads = threads;
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).threads,
              "every wrong element belongs to lane 1 of every warp");
    // Of the 17 wrong ones of the row.
    bad_rows_of(report, Stage::acc)[0].elements = 17;
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).threads,
              "every wrong element of 1 looked at belongs to lane 1 of every warp");
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::not_yet).threads, "");
    diagnosis.threads->warps_of_block = 1;
    diagnosis.threads->warps = {{true}, {true}};
    diagnosis.threads->elements = 17;
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).threads, "every wrong element belongs to lane 1");
}

TEST(Card, SaysWhereTheStageIsHooked) {
    Report report = acc_is_wrong();
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    Diagnosis diagnosis;
    diagnosis.causes = {cause_of("acc_not_rescaled", 1)};
    std::vector<SourceLine>& hooks = report.stages[std::size_t(Stage::acc)].hooks;
    hooks = {{"csrc/attention.cu", 61}};
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).look_at,
              "acc *= alpha; acc is hooked at csrc/attention.cu:61");
    hooks.insert(hooks.end(), {{"a.cu", 1}, {"a.cu", 2}, {"a.cu", 3}});
    EXPECT_EQ(card_of(report, diagnosis, CausesKnown::yes).look_at,
              "acc *= alpha; acc is hooked at csrc/attention.cu:61, a.cu:1, a.cu:2 and 1 more");
}

TEST(Card, SaysADeclarationBeforeAMistake) {
    Report report = acc_is_wrong();
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    Diagnosis diagnosis;
    diagnosis.causes = {cause_of("acc_not_rescaled", 1)};
    diagnosis.suggestion = Suggestion{{{"acc.cast", "f16"}}, {}, false, {}};
    const Card card = card_of(report, diagnosis, CausesKnown::yes);
    EXPECT_EQ(card.headline,
              "acc is wrong in row 3 of batch 1, head 2, first in KV tile 1: declare: acc.cast = f16; then "
              "it matches");
    EXPECT_EQ(card.evidence, "");
}

TEST(Card, BlamesNeitherOfTwoRecordings) {
    Report report = acc_is_wrong();
    report.other = "theirs.h5";
    add_rows(report, Stage::acc, 1, 2, 3, 3);
    EXPECT_EQ(card_of(report, {}, CausesKnown::yes).headline,
              "acc differs between the two recordings in row 3 of batch 1, head 2, first in KV tile 1: which "
              "of them is "
              "wrong, if any, this comparison does not say");
}

TEST(Card, OfARightRecordingIsItsVerdict) {
    Report report = acc_is_wrong();
    report.guilty.reset();
    report.stages[std::size_t(Stage::acc)].tally.outside = 0;
    Card card = card_of(report, {}, CausesKnown::no);
    EXPECT_EQ(card.headline, "match: 800 elements of 8 stages agree with the float64 oracle");
    EXPECT_EQ(card.evidence, "every bit of it is as expected");
    EXPECT_EQ(card.also, "not recorded: q k");

    report.stages[std::size_t(Stage::l)].tally.budget_used = 0.25;
    report.stages[std::size_t(Stage::o)].tally.budget_used = 0.125;
    report.stages[std::size_t(Stage::q)].captured = report.stages[std::size_t(Stage::k)].captured = true;
    card = card_of(report, {}, CausesKnown::no);
    EXPECT_EQ(card.evidence, "closest to its budget: l, 0.25 of it");
    EXPECT_EQ(card.also, "");

    report.unjudged = "o was not recorded";
    EXPECT_EQ(card_of(report, {}, CausesKnown::no).headline, "unjudged: o was not recorded");
    EXPECT_EQ(card_of(report, {}, CausesKnown::no).evidence, "");
}

TEST(Chain, SaysFromWhatAStageInherits) {
    Report report = acc_is_wrong();
    const auto words = [&] {
        std::string text;
        for (const ChainLink& link : chain_of(report)) text += (text.empty() ? "" : "|") + link.word;
        return text;
    };
    EXPECT_EQ(words(), "-|-|right|right|right|right|right|guilty|from acc|right");
    EXPECT_EQ(chain_of(report)[0].says, "q: not recorded");
    EXPECT_EQ(chain_of(report)[8].says, "o: right, given the stages before it, which are wrong: acc");

    // lse is computed from l, and not from acc; o from both.
    report.stages[std::size_t(Stage::l)].tally.outside = 1;
    report.stages[std::size_t(Stage::lse)].tally.inherited = 1;
    report.guilty = Stage::l;
    EXPECT_EQ(words(), "-|-|right|right|right|right|guilty|wrong too|inherited|from l");
    EXPECT_EQ(chain_of(report)[8].inherits, (std::vector{Stage::l, Stage::acc}));

    report.other = "theirs.h5";
    EXPECT_EQ(words(), "-|-|same|same|same|same|differs|differs|inherited|from l");
}

}  // namespace
}  // namespace tilescope::test
