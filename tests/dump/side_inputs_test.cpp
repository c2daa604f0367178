#include "dump/schema/side_inputs.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

/// Of the small problem: 2 entries of 10 rows of q in 6 heads, 13 rows of k and v in 3 heads.
SideInputs valid_inputs() {
    SideInputs inputs;
    inputs.seqlens_q = {10, 0};
    inputs.seqlens_kv = {0, 13};
    inputs.alibi_slopes = std::vector<float>(12, 0.5f);
    inputs.sink = std::vector<float>(6, 1.0f);
    inputs.descale_q = {6, 3, 4, std::vector<float>(2 * 6 * 3, 1.0f)};
    inputs.descale_k = {3, 1, 13, std::vector<float>(2 * 3, 1.0f)};
    inputs.descale_v = {0, 1, 0, {2.0f}};
    return inputs;
}

Problem problem_with_all() {
    Problem problem = test::small_problem();
    problem.alibi = Alibi::linear;
    problem.sink = AttentionSink::first;
    return problem;
}

TEST(SideInputs, DescaleAnswersForARow) {
    EXPECT_EQ(Descale().at(1, 2, 3), 1) << "none";
    const Descale one = {0, 1, 0, {0.25f}};
    EXPECT_EQ(one.at(1, 2, 3), 0.25f);
    Descale blocks = {2, 3, 4, std::vector<float>(2 * 2 * 3)};
    for (std::size_t i = 0; i < blocks.values.size(); ++i) blocks.values[i] = float(i);
    EXPECT_EQ(blocks.at(0, 0, 3), 0);
    EXPECT_EQ(blocks.at(0, 0, 4), 1);
    EXPECT_EQ(blocks.at(1, 1, 9), 11);
    const Descale heads = {2, 1, 10, {1, 2, 3, 4}};
    EXPECT_EQ(heads.at(1, 0, 9), 3);
    EXPECT_EQ(heads.of_channel(1, 0, 5), 1);
    const Descale channels = {2, 1, 10, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 3};
    EXPECT_EQ(channels.at(1, 0, 9), 1);
    EXPECT_EQ(channels.of_channel(1, 0, 2), 9);
}

TEST(SideInputs, ProblemOfAnEntryHasItsLengths) {
    const Problem problem = test::small_problem();
    const Problem entry = problem_of(problem, valid_inputs(), 1);
    EXPECT_EQ(entry.seqlen_q, 0);
    EXPECT_EQ(entry.seqlen_kv, 13);
    EXPECT_EQ(entry.kv_tiles(), 3);
    EXPECT_EQ(problem_of(problem, SideInputs(), 1), problem);
}

TEST(SideInputs, BiasRepeatsWhereASizeIsOne) {
    Bias bias = {1, 6, 1, 13, {}};
    for (int i = 0; i < 6 * 13; ++i) bias.values.push_back(float(i));
    EXPECT_EQ(bias.at(1, 2, 9, 5), 2 * 13 + 5);
    const Bias column = {2, 1, 10, 1, std::vector<float>{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                                         10, 11, 12, 13, 14, 15, 16, 17, 18, 19}};
    EXPECT_EQ(column.at(1, 5, 3, 12), 13);
}

TEST(SideInputs, ValidateTakesEveryShape) {
    EXPECT_EQ(error_of([] { validate(valid_inputs(), problem_with_all(), "run.h5"); }), "accepted");
    EXPECT_EQ(error_of([] { validate(SideInputs(), test::small_problem(), "run.h5"); }), "accepted");
    SideInputs inputs = valid_inputs();
    inputs.alibi_slopes.resize(6);
    inputs.descale_v = {3, 1, 13, std::vector<float>(2 * 3 * 7, 1.0f), 7};
    EXPECT_EQ(error_of([&] { validate(inputs, problem_with_all(), "run.h5"); }), "accepted");
}

TEST(SideInputs, ValidateNamesWhatIsWrong) {
    const std::pair<const char*, std::function<void(SideInputs&)>> spoilt[] = {
        {"seqlens_q has 3 entries for batch 2",
         [](SideInputs& i) {
             i.seqlens_q = {1, 2, 3};
         }},
        {"seqlens_q holds 11, not between 0 and 10",
         [](SideInputs& i) {
             i.seqlens_q = {1, 11};
         }},
        {"seqlens_kv holds -1, not between 0 and 13",
         [](SideInputs& i) {
             i.seqlens_kv = {-1, 2};
         }},
        {"alibi_slopes has 0 entries, not 6", [](SideInputs& i) { i.alibi_slopes.clear(); }},
        {"alibi_slopes has 7 entries", [](SideInputs& i) { i.alibi_slopes.resize(7); }},
        {"alibi_slopes holds a number that is not finite",
         [](SideInputs& i) { i.alibi_slopes[3] = nan_value; }},
        {"sink has 0 entries, not 6", [](SideInputs& i) { i.sink.clear(); }},
        {"sink holds a number that is not finite", [](SideInputs& i) { i.sink[0] = -infinity; }},
        {"descale_q has 2 blocks of 4 rows", [](SideInputs& i) { i.descale_q.blocks = 2; }},
        {"descale_q has 4 blocks of 4 rows", [](SideInputs& i) { i.descale_q.blocks = 4; }},
        {"descale_q has 3 blocks of 0 rows", [](SideInputs& i) { i.descale_q.rows = 0; }},
        {"descale_q has 3 blocks of 9223372036854775807 rows",
         [](SideInputs& i) { i.descale_q.rows = std::numeric_limits<std::int64_t>::max(); }},
        {"descale_q has 35 entries, not 36", [](SideInputs& i) { i.descale_q.values.pop_back(); }},
        {"descale_k has 1 blocks of 13 rows for 6 heads", [](SideInputs& i) { i.descale_k.heads = 6; }},
        {"descale_k holds a number that is not finite",
         [](SideInputs& i) { i.descale_k.values[5] = infinity; }},
        {"descale_v has 2 entries, not 1", [](SideInputs& i) { i.descale_v.values.push_back(1); }},
        {"descale_v has 8 channels of 3 heads for an operand with 7 of 3",
         [](SideInputs& i) {
             i.descale_v = {3, 1, 13, std::vector<float>(2 * 3 * 8, 1.0f), 8};
         }},
        {"descale_v has 41 entries, not 42",
         [](SideInputs& i) {
             i.descale_v = {3, 1, 13, std::vector<float>(2 * 3 * 7 - 1, 1.0f), 7};
         }},
    };
    for (const auto& [what, spoil] : spoilt) {
        SideInputs inputs = valid_inputs();
        spoil(inputs);
        const std::string message = error_of([&] { validate(inputs, problem_with_all(), "run.h5"); });
        EXPECT_EQ(message.find(std::string("run.h5: ") + what), 0u) << what << "\n" << message;
    }
    SideInputs unasked;
    unasked.sink = {1, 2};
    EXPECT_NE(error_of([&] { validate(unasked, test::small_problem(), "run.h5"); }), "accepted")
        << "of no use, but wrong";
}

TEST(SideInputs, ValidateChecksABias) {
    const Problem problem = test::small_problem();
    const auto checked = [&](Bias bias) { return error_of([&] { validate(bias, problem, "run.h5"); }); };
    EXPECT_EQ(checked({}), "accepted") << "none";
    EXPECT_EQ(checked({2, 6, 10, 13, std::vector<float>(2 * 6 * 10 * 13)}), "accepted");
    EXPECT_EQ(checked({1, 1, 1, 13, std::vector<float>(13, -infinity)}), "accepted") << "-inf hides a key";
    EXPECT_EQ(
        checked({1, 1, 2, 13, std::vector<float>(26)}).find("run.h5: bias has seqlen_q 2, neither 1 nor 10"),
        0u);
    EXPECT_EQ(checked({1, 1, 1, 13, std::vector<float>(14)}).find("run.h5: bias has 14 entries, not 13"), 0u);
    for (const float value : {nan_value, infinity}) {
        EXPECT_EQ(checked({1, 1, 1, 1, {value}}).find("run.h5: bias holds NaN or +inf"), 0u);
    }
}

}  // namespace
}  // namespace tilescope
