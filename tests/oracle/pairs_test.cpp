// The oracle's end-to-end replay against attention by its definition: each option of a call and its dump
// alone, with each other option, and in random mixes.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dump/schema/error.h"
#include "tests/oracle/definition_options.h"
#include "tests/oracle/definition_replay.h"
#include "tests/support/seeds.h"

namespace tilescope::test {
namespace {

using Options = std::vector<const Option*>;

const std::uint64_t seeds_of_a_pair = tried_seeds(3);

/// The pairs that require_known_semantics() refuses.
constexpr std::pair<std::string_view, std::string_view> refused_pairs[] = {
    {"sink_first", "l_lanes"},
    {"raw_q_block", "m_unscaled"},
    {"raw_k_block", "m_unscaled"},
    {"s_masked_number", "p_of_tile_max"},
    {"p_takes_descale_block", "p_dumped_f16"},
    {"p_takes_descale_block", "l_sums_cast_p"},
    {"p_holds_descale_block", "l_sums_cast_p"},
    {"sink_first", "m_offset"},
    {"m_from_lse", "m_offset"},
};

bool is_listed_as_refused(const Option& a, const Option& b) {
    return std::ranges::find(refused_pairs, std::pair{a.name, b.name}) != std::end(refused_pairs);
}

bool is_refused(const AttentionCall& call) {
    try {
        require_known_semantics(*recording_of(call));
        return false;
    } catch (const Error&) {
        return true;
    }
}

void expect_valid(const AttentionCall& call) {
    EXPECT_NO_THROW(validate(call.problem, "the call"));
    EXPECT_NO_THROW(validate(call.units, "the call"));
    EXPECT_NO_THROW(validate(call.inputs.side, call.problem, "the call"));
    EXPECT_NO_THROW(validate(call.inputs.bias, call.problem, "the call"));
}

void expect_call_equals_definition(const AttentionCall& call, std::uint64_t seed, Coverage& coverage) {
    expect_valid(call);
    // Which m may be chosen takes the bounds of the scores.
    const bool bounds = seed % 3 != 0 || call.units.m_stale_threshold > 0;
    const ReplayManner manner{.skip_hidden = seed % 2 == 1, .bounds = bounds};
    expect_replay_equals_definition(call, manner, coverage);
}

class OptionTest : public ::testing::TestWithParam<std::size_t> {
 protected:
    const Option& option() const { return all_options()[GetParam()]; }
};

using Alone = OptionTest;
using Pairs = OptionTest;

TEST_P(Alone, EqualsTheDefinition) {
    Coverage coverage;
    const Options options = {&option()};
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        SCOPED_TRACE(describe(options, seed));
        expect_call_equals_definition(call_with(options, seed), seed, coverage);
        ASSERT_FALSE(HasFailure());
    }
    EXPECT_GT(coverage.elements, 1000);
    EXPECT_GT(coverage.rows_that_see_something, 10);
}

/// Every value that the definition gives, row by row.
std::vector<Real> defined_values(const AttentionCall& call) {
    std::vector<Real> values;
    const auto add = [&](const std::vector<Defined>& list) {
        for (const Defined& defined : list) values.push_back(defined.value);
    };
    for (std::int64_t batch = 0; batch < call.problem.batch; ++batch) {
        for (std::int64_t head = 0; head < call.problem.heads; ++head) {
            for (std::int64_t row = 0; row < rows_of_entry(call, batch); ++row) {
                const DefinedRow defined = define_row(call, batch, head, row);
                for (const auto* list : {&defined.s, &defined.m, &defined.p, &defined.o}) add(*list);
                for (const auto& l : defined.l) add(l);
                for (const auto& acc : defined.acc) add(acc);
                values.push_back(defined.lse.value);
            }
        }
    }
    return values;
}

/// Beside a window and a bias that leave some rows nothing to see, so that each option has something to
/// change.
TEST_P(Alone, ChangesTheValues) {
    if (GetParam() >= value_options().size()) return;
    bool changes = false;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Options without;
        Options with;
        for (const Option& other : all_options()) {
            const bool given = &other == &option();
            const bool beside = other.name == "window_left" || other.name == "bias_that_hides";
            if (beside && !given && other.sets != option().sets) without.push_back(&other);
            if (given || (beside && other.sets != option().sets)) with.push_back(&other);
        }
        changes =
            changes || defined_values(call_with(with, seed)) != defined_values(call_with(without, seed));
    }
    EXPECT_TRUE(changes);
}

TEST_P(Pairs, EqualTheDefinition) {
    Coverage coverage;
    for (std::size_t i = GetParam() + 1; i < all_options().size(); ++i) {
        const Options options = {&option(), &all_options()[i]};
        if (!can_stand_together(options) || is_listed_as_refused(*options[0], *options[1])) continue;
        const std::uint64_t first_seed = 1000 * GetParam() + 10 * i;
        for (std::uint64_t seed = first_seed; seed < first_seed + seeds_of_a_pair; ++seed) {
            SCOPED_TRACE(describe(options, seed));
            const AttentionCall call = call_with(options, seed);
            ASSERT_FALSE(is_refused(call));
            expect_call_equals_definition(call, seed, coverage);
            ASSERT_FALSE(HasFailure());
        }
    }
    const bool is_last = GetParam() + 1 == all_options().size();
    EXPECT_EQ(coverage.rows_that_see_something > 0, !is_last);
}

std::string name_of(const ::testing::TestParamInfo<std::size_t>& parameter) {
    return std::string(all_options()[parameter.param].name);
}

INSTANTIATE_TEST_SUITE_P(Options, Alone, ::testing::Range<std::size_t>(0, all_options().size()), name_of);
INSTANTIATE_TEST_SUITE_P(Options, Pairs, ::testing::Range<std::size_t>(0, all_options().size()), name_of);

TEST(SkippedPairs, AreFew) {
    const std::size_t count = all_options().size();
    std::size_t contradictory = 0;
    for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = i + 1; j < count; ++j) {
            const Options options = {&all_options()[i], &all_options()[j]};
            contradictory += !can_stand_together(options);
        }
    }
    const std::size_t pairs = count * (count - 1) / 2;
    EXPECT_LE(contradictory + std::size(refused_pairs), pairs / 25);
}

TEST(SkippedPairs, AreRefusedWhereListed) {
    for (const auto& [first, second] : refused_pairs) {
        const Options options = {&option_named(first), &option_named(second)};
        bool refused = false;
        for (std::uint64_t seed = 1; seed <= 10; ++seed)
            refused = refused || is_refused(call_with(options, seed));
        EXPECT_TRUE(refused) << first << " with " << second;
    }
}

class Mixes : public ::testing::TestWithParam<std::uint64_t> {};

/// Some options that do not contradict each other, in the table's order.
Options draw_options(Random& random) {
    Options options;
    for (const Option& option : all_options()) {
        if (random() % 10 != 0) continue;
        options.push_back(&option);
        if (!can_stand_together(options)) options.pop_back();
    }
    return options;
}

TEST_P(Mixes, EqualTheDefinition) {
    Coverage coverage;
    int compared = 0;
    for (std::uint64_t seed = 100 * GetParam(); seed < 100 * (GetParam() + 1); ++seed) {
        Random random(seed);
        const Options options = draw_options(random);
        const AttentionCall call = call_with(options, seed);
        if (is_refused(call)) continue;
        SCOPED_TRACE(describe(options, seed));
        expect_call_equals_definition(call, seed, coverage);
        ASSERT_FALSE(HasFailure());
        ++compared;
    }
    EXPECT_GT(compared, 50);
    EXPECT_GT(coverage.rows_that_see_something, 0);
    EXPECT_GT(coverage.rows_that_see_nothing, 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Mixes, ::testing::Range<std::uint64_t>(1, 13));

/// In reverse order the split with the sink comes last.
TEST(SinkOfTheFirstSplit, CountsOnceInEitherOrder) {
    Coverage coverage;
    const Options forward = {&option_named("sink_first"), &option_named("splits")};
    const Options reverse = {&option_named("sink_first"), &option_named("splits"), &option_named("reverse")};
    for (const Options& options : {forward, reverse}) {
        for (std::uint64_t seed = 1; seed <= 10; ++seed) {
            SCOPED_TRACE(describe(options, seed));
            expect_call_equals_definition(call_with(options, seed), seed, coverage);
        }
    }
    EXPECT_GT(coverage.rows_that_see_something, 100);
}

TEST(BiasBroadcast, EqualsTheDefinitionInEveryKind) {
    Coverage coverage;
    for (std::uint64_t kind = 0; kind < 16; ++kind) {
        SCOPED_TRACE("sizes that are not 1: " + std::to_string(kind));
        AttentionCall call = call_with({}, kind);
        Random random(kind);
        call.inputs.bias = draw_bias(call.problem, kind & 1, kind & 2, kind & 4, kind & 8, random);
        expect_call_equals_definition(call, kind, coverage);
    }
    EXPECT_GT(coverage.rows_that_see_something, 100);
}

}  // namespace
}  // namespace tilescope::test
