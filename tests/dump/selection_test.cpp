#include "dump/schema/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "dump/schema/error.h"
#include "dump/schema/program.h"
#include "dump/schema/shared_selection.h"
#include "tests/dump/small_problem.h"

namespace tilescope {
namespace {

constexpr std::int64_t open_end = std::numeric_limits<std::int64_t>::max();

std::string error_of(const std::string& text) {
    try {
        parse_selection(text, "--select");
    } catch (const Error& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Selection, ReadsEveryCoordinate) {
    const Selection selection =
        parse_selection("batch=0:head=1,3:q_block=0-3:kv_tile=2-:stage=s,p", "--select");
    using Range = Ranges::Range;
    EXPECT_EQ(selection.batch.ranges, (std::vector<Range>{{0, 0}}));
    EXPECT_EQ(selection.head.ranges, (std::vector<Range>{{1, 1}, {3, 3}}));
    EXPECT_EQ(selection.q_block.ranges, (std::vector<Range>{{0, 3}}));
    EXPECT_EQ(selection.kv_tile.ranges, (std::vector<Range>{{2, open_end}}));
    EXPECT_EQ(selection.stages, (std::vector<Stage>{Stage::s, Stage::p}));
}

TEST(Selection, SelectsTilesAndStages) {
    const Selection selection = parse_selection("head=1,3:q_block=1-2:kv_tile=2-:stage=s,q", "--select");
    const Problem problem = test::small_problem();
    EXPECT_TRUE(selection.selects(problem, Stage::s, {5, 1, 2, 100}));
    EXPECT_FALSE(selection.selects(problem, Stage::s, {5, 2, 2, 100}));
    EXPECT_FALSE(selection.selects(problem, Stage::s, {5, 3, 3, 100}));
    EXPECT_FALSE(selection.selects(problem, Stage::s, {5, 3, 0, 100}));
    EXPECT_FALSE(selection.selects(problem, Stage::s, {5, 1, 2, 1}));
    EXPECT_FALSE(selection.selects(problem, Stage::p, {5, 1, 2, 100}));
    EXPECT_TRUE(selection.selects(problem, Stage::q, {5, 1, 2, 0})) << "q has no KV tile";
    EXPECT_TRUE(selection.selects(Stage::q));
    EXPECT_FALSE(selection.selects(Stage::lse));
}

/// Two query heads read a KV head: 0 and 1, 2 and 3, 4 and 5.
TEST(Selection, TakesDkOfEachQueryHeadThatIsSelected) {
    Problem problem = test::small_problem();
    problem.direction = Direction::backward;
    const std::pair<const char*, std::vector<std::int64_t>> summed[] = {
        {"head=0", {0}},      {"head=1", {0}},      {"head=2", {1}}, {"head=5-", {2}},
        {"head=1-2", {0, 1}}, {"head=0,4", {0, 2}}, {"head=6-", {}}, {"", {0, 1, 2}}};
    for (const Stage stage : {Stage::dk, Stage::dv}) {
        for (const auto& [text, heads] : summed) {
            const Selection selection = parse_selection(text, "--select");
            problem.dkv_per_head = false;
            for (std::int64_t head = 0; head < 3; ++head) {
                const bool expected = std::ranges::find(heads, head) != heads.end();
                EXPECT_EQ(selection.selects(problem, stage, {0, head, 0, 0}), expected)
                    << text << " " << head;
            }
            problem.dkv_per_head = true;
            for (std::int64_t head = 0; head < 6; ++head) {
                EXPECT_EQ(selection.selects(problem, stage, {0, head, 0, 0}), selection.head.contains(head));
            }
        }
        const Selection other = parse_selection("batch=1:q_block=2:kv_tile=1", "--select");
        EXPECT_TRUE(other.selects(problem, stage, {1, 0, 0, 1})) << "dk has no query block";
        EXPECT_FALSE(other.selects(problem, stage, {0, 0, 0, 1}));
        EXPECT_FALSE(other.selects(problem, stage, {1, 0, 0, 2}));
        EXPECT_FALSE(parse_selection("stage=dq", "--select").selects(problem, stage, {}));
    }
}

/// What one of the listed blocks has, and what the ranges leave of that.
TEST(Selection, TakesTheBlocksThatAreListed) {
    const Problem problem = test::small_problem();
    const Selection selection =
        parse_selection("q_block=1-:kv_tile=0-1:block=0/1/0-1,1/4/2,1/4/2", "--select");
    std::vector<TileId> selected;
    for (std::int64_t i = 0; i < tile_count(problem, Stage::s); ++i) {
        const TileId tile = tile_at(problem, Stage::s, i);
        if (selection.selects(problem, Stage::s, tile)) selected.push_back(tile);
    }
    EXPECT_EQ(selected, (std::vector<TileId>{{0, 1, 1, 0}, {0, 1, 1, 1}, {1, 4, 2, 0}, {1, 4, 2, 1}}));
    EXPECT_EQ(count_selected(problem, Stage::s, selection), 4);
    EXPECT_EQ(count_selected(problem, Stage::o, selection), 2);
    EXPECT_EQ(count_selected(problem, Stage::o, parse_selection("stage=s", "--select")), 0);

    Problem backward = test::small_backward_problem();
    for (const auto& [per_head, head] : {std::pair(false, 2), std::pair(true, 4)}) {
        backward.dkv_per_head = per_head;
        EXPECT_TRUE(selection.selects(backward, Stage::dk, {1, head, 0, 1}));
        EXPECT_FALSE(selection.selects(backward, Stage::dk, {0, head, 0, 1}));
        EXPECT_FALSE(selection.selects(backward, Stage::dk, {1, head, 0, 2}));
        EXPECT_EQ(count_selected(backward, Stage::dv, selection), 4) << "two heads, two KV tiles";
    }
}

TEST(Selection, EmptyTextSelectsEverything) {
    const Selection selection = parse_selection("", "--select");
    EXPECT_EQ(selection, Selection());
    Problem problem = test::small_problem();
    for (const Direction direction : {Direction::forward, Direction::backward}) {
        problem.direction = direction;
        for (const StageInfo& info : all_stages()) {
            EXPECT_EQ(selection.selects(problem, info.stage, {1000, 1000, 1000, 1000}),
                      has_stage(direction, info.stage))
                << info.name;
        }
    }
}

TEST(Selection, TextReadsBack) {
    for (const char* text :
         {"", "batch=0", "head=1,3,7-9", "q_block=0-3:kv_tile=2-", "stage=q,k,v,s,m,p,l,acc,o,lse",
          "stage=dout,delta,dp,ds,dq,dk,dv", "batch=0:head=1,3:q_block=0-3:kv_tile=2-:stage=s,p",
          "kv_tile=9223372036854775806", "block=0/1/3", "head=1:kv_tile=0-2:block=0/1/3-5,1/1/0-:stage=s"}) {
        const Selection selection = parse_selection(text, "--select");
        EXPECT_EQ(to_string(selection), text);
        EXPECT_EQ(parse_selection(to_string(selection), "--select"), selection) << text;
    }
    EXPECT_EQ(to_string(parse_selection("stage=s:batch=0-0", "--select")), "batch=0:stage=s");
}

struct BadText {
    const char* text;
    const char* what;
    const char* what_to_do;
};

class SelectionBadText : public testing::TestWithParam<BadText> {};

TEST_P(SelectionBadText, IsRefusedInOneHelpfulLine) {
    const std::string message = error_of(GetParam().text);
    EXPECT_NE(message.find("--select: "), std::string::npos) << message;
    EXPECT_NE(message.find(GetParam().what), std::string::npos) << message;
    EXPECT_NE(message.find(GetParam().what_to_do), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 300u) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, SelectionBadText,
    testing::Values(BadText{"batch", "clause 'batch' has no '='", "write for example batch=0"},
                    BadText{":", "clause '' has no '='", "write for example"},
                    BadText{"batch=0:", "clause '' has no '='", "write for example"},
                    BadText{"batch=", "clause 'batch=' has no values", "write for example"},
                    BadText{"stage=", "clause 'stage=' has no values", "write for example"},
                    BadText{"=3", "there is no coordinate ''", "choose from batch, head, q_block"},
                    BadText{"row=3", "there is no coordinate 'row'", "choose from batch, head, q_block"},
                    BadText{"Batch=3", "there is no coordinate 'Batch'", "choose from batch"},
                    BadText{"batch=0:batch=1", "'batch' is given twice", "join its values with commas"},
                    BadText{"stage=s:stage=p", "'stage' is given twice", "join its values with commas"},
                    BadText{"head=3-1", "range '3-1' in 'head=3-1' descends", "smaller number first"},
                    BadText{"head=a", "'a' in 'head=a' is not a number", "write for example"},
                    BadText{"head=1,", "'' in 'head=1,' is not a number", "write for example"},
                    BadText{"head=-1", "'' in 'head=-1' is not a number", "write for example"},
                    BadText{"head=1-2-3", "'2-3' in 'head=1-2-3' is not a number", "write for example"},
                    BadText{"head=1 ", "'1 ' in 'head=1 ' is not a number", "write for example"},
                    BadText{"head=+1", "'+1' in 'head=+1' is not a number", "write for example"},
                    BadText{"head=0x1", "'0x1' in 'head=0x1' is not a number", "write for example"},
                    BadText{"head=1=2", "'1=2' in 'head=1=2' is not a number", "write for example"},
                    BadText{"head=9223372036854775808", "is too large", "below 2^63"},
                    BadText{"stage=x", "there is no stage 'x'", "choose from q, k, v, s, m, p, l, acc"},
                    BadText{"block=", "clause 'block=' has no values", "write for example"},
                    BadText{"block=1/2", "'1/2' in 'block=1/2' names no query block", "batch/head/q_block"},
                    BadText{"block=1/2/3/4", "names no query block", "batch/head/q_block"},
                    BadText{"block=1-2/0/0", "'1-2' in 'block=1-2/0/0' is not a number", "write for"},
                    BadText{"block=0/0/2-1", "range '2-1' in 'block=0/0/2-1' descends", "smaller number"},
                    BadText{"block=0/0/0:block=0/0/1", "'block' is given twice", "join its values"},
                    BadText{"stage=s,", "there is no stage ''", "choose from q, k, v, s"},
                    BadText{"he\nad=1", "there is no coordinate 'he?ad'", "choose from batch"}));

TEST(Selection, LongTextIsShortenedInTheMessage) {
    EXPECT_LT(error_of("head=" + std::string(100000, 'a')).size(), 300u);
}

class SelectionEnvironment : public testing::Test {
 protected:
    void TearDown() override { unsetenv("TILESCOPE_SELECT"); }
};

TEST_F(SelectionEnvironment, IsReadFromTheVariable) {
    unsetenv("TILESCOPE_SELECT");
    EXPECT_EQ(selection_from_environment(), Selection());
    setenv("TILESCOPE_SELECT", "", 1);
    EXPECT_EQ(selection_from_environment(), Selection());
    setenv("TILESCOPE_SELECT", "head=2:stage=l", 1);
    EXPECT_EQ(selection_from_environment(), parse_selection("head=2:stage=l", "test"));
}

/// One process, attention and a declared kernel: each takes what it has.
TEST_F(SelectionEnvironment, IsSharedWithDeclaredKernels) {
    const Program program = parse_program(
        "axes shared_n: rows; shared_m: cols\ninput a[shared_n, shared_m]\nstage shared_y[shared_n, "
        "shared_m] = a\n"
        "stage l[shared_n] = sum(shared_m: a)\noutput shared_y");
    const char* const text = "head=2:shared_n=0-3:stage=s,shared_y,l";
    setenv("TILESCOPE_SELECT", text, 1);
    EXPECT_THROW(selection_from_environment(), Error) << "nobody has these names yet";
    share_names(program);
    EXPECT_EQ(selection_from_environment(), parse_selection("head=2:stage=s,l", "test"));
    EXPECT_EQ(part_of_program(text, program), "shared_n=0-3:stage=shared_y,l");
    setenv("TILESCOPE_SELECT", "shared_m=1:stage=shared_y", 1);
    EXPECT_EQ(selection_from_environment(), Selection());
    EXPECT_EQ(part_of_program("batch=0:block=0/1/2:stage=o", program), "");
}

/// What nobody has, and what is malformed, stays for the one that refuses it.
TEST_F(SelectionEnvironment, KeepsWhatNobodyHas) {
    const Program program =
        parse_program("axes kept_n: rows\ninput a[kept_n]\nstage kept_y[kept_n] = a\noutput kept_y");
    share_names(program);
    for (const char* const text : {"haed=2", "head=2:kept_k=1", "stage=kept_z", "kept_n=1:stage=s,acx",
                                   "kept_n", ":", "stage=", "kept_n=1:", "stage=,s", "head=2:head=3"}) {
        setenv("TILESCOPE_SELECT", text, 1);
        EXPECT_THROW(selection_from_environment(), Error) << text;
    }
    for (const char* const text :
         {"", "kept_m=1", "kept_n", ":", "stage=", "kept_n=1:", "kept_n=1:stage=kept_y,"})
        EXPECT_EQ(part_of_program(text, program), text);
}

TEST_F(SelectionEnvironment, ErrorsNameTheVariable) {
    setenv("TILESCOPE_SELECT", "head=x", 1);
    try {
        selection_from_environment();
        FAIL() << "accepted";
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()).find("environment variable TILESCOPE_SELECT: "), 0u)
            << error.what();
    }
}

}  // namespace
}  // namespace tilescope
