// Where the rows of a shard lie in the whole call, and how a file says so.

#include <gtest/gtest.h>

#include <random>

#include "dump/reader.h"
#include "dump/schema/error.h"
#include "dump/schema/semantics.h"
#include "dump/writer.h"
#include "tests/dump/file_sample.h"

namespace tilescope::test {
namespace {

/// The positions one by one.
std::vector<std::int64_t> listed(const Positions& positions) {
    std::vector<std::int64_t> all;
    for (const PositionRange& range : positions)
        for (std::int64_t i = 0; i < range.count; ++i) all.push_back(range.first + i * range.stride);
    return all;
}

/// A few ascending ranges.
Positions drawn(std::mt19937& random) {
    Positions positions;
    std::int64_t next = 0;
    const auto below = [&](int end) { return std::int64_t(random() % unsigned(end)); };
    for (std::int64_t ranges = 1 + below(4); ranges > 0; --ranges) {
        const PositionRange range{next + below(5), 1 + below(6), 1 + below(4)};
        positions.push_back(range);
        next = range.last() + 1;
    }
    return positions;
}

TEST(Shard, FindsRowsAndPositions) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        const Positions positions = drawn(random);
        const std::vector<std::int64_t> all = listed(positions);
        ASSERT_EQ(count_of(positions), std::ssize(all));
        for (std::size_t row = 0; row < all.size(); ++row)
            EXPECT_EQ(position_of(positions, std::int64_t(row)), all[row]);
        for (std::int64_t position = 0; position < all.back() + 3; ++position) {
            const auto at = std::ranges::lower_bound(all, position);
            EXPECT_EQ(rows_before(positions, position), at - all.begin()) << position;
            const bool is_there = at != all.end() && *at == position;
            EXPECT_EQ(row_at(positions, position), is_there ? at - all.begin() : -1) << position;
        }
        EXPECT_EQ(positions_in(text_of(positions), "test"), positions);
    }
}

TEST(Shard, OfEverythingIsEverything) {
    EXPECT_EQ(position_of({}, 7), 7);
    EXPECT_EQ(rows_before({}, 7), 7);
    EXPECT_EQ(row_at({}, 7), 7);
    EXPECT_EQ(text_of(Positions()), "");
}

TEST(Shard, SeesWhatTheWholeCallSees) {
    for (unsigned seed = 1; seed <= 100; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937 random(seed);
        Problem whole;
        whole.seqlen_q = whole.seqlen_kv = 200;
        whole.mask = seed % 3 == 0 ? Mask::none : Mask::causal;
        whole.window_left = seed % 2 == 0 ? 11 : -1;
        whole.window_right = seed % 5 == 0 ? 3 : -1;
        Problem part = whole;
        part.shard = {2, 1, 0, ShardKind::step, 200, 200, drawn(random), drawn(random)};
        part.seqlen_q = count_of(part.shard.q_positions);
        part.seqlen_kv = count_of(part.shard.kv_positions);
        validate(part, "test");
        const std::vector<std::int64_t> rows = listed(part.shard.q_positions);
        const std::vector<std::int64_t> keys = listed(part.shard.kv_positions);
        for (std::size_t row = 0; row < rows.size(); ++row) {
            const KeyRange of_whole = visible_keys(whole, rows[row]);
            const KeyRange seen = visible_keys(part, std::int64_t(row));
            for (std::size_t key = 0; key < keys.size(); ++key)
                EXPECT_EQ(seen.contains(std::int64_t(key)), of_whole.contains(keys[key]))
                    << row << " " << key;
        }
    }
}

TEST(Shard, RefusesWhatCannotBe) {
    Problem good;
    good.seqlen_q = 4;
    good.seqlen_kv = 4;
    good.shard = {2, 1, 0, ShardKind::step, 8, 8, {{4, 4, 1}}, {{0, 4, 2}}};
    EXPECT_NO_THROW(validate(good, "test"));
    const auto refused = [&](const auto& spoil) {
        Problem bad = good;
        spoil(bad);
        EXPECT_THROW(validate(bad, "test"), Error);
    };
    refused([](Problem& p) { p.shard.rank = 2; });
    refused([](Problem& p) { p.shard.ranks = 0; });
    refused([](Problem& p) { p.shard.step = -1; });
    refused([](Problem& p) { p.shard.q_positions = {{5, 4, 1}}; });
    refused([](Problem& p) { p.shard.q_positions = {{0, 3, 1}}; });
    refused([](Problem& p) { p.shard.q_positions = {{2, 2, 1}, {0, 2, 1}}; });
    refused([](Problem& p) { p.shard.kv_positions = {{0, 4, std::int64_t(1) << 40}}; });
    refused([](Problem& p) { p.shard.kv_positions = {{-1, 4, 1}}; });
    refused([](Problem& p) { p.shard.seqlen_q = 3; });
    refused([](Problem& p) { p.direction = Direction::backward; });
    EXPECT_THROW(positions_in("0+4,", "test"), Error);
    EXPECT_THROW(positions_in("4", "test"), Error);
}

TEST(Shard, IsKeptInAFile) {
    const TemporaryFolder folder;
    Problem problem = sample_problem();
    problem.shard = {
        4, 3, 2, ShardKind::step, 100, 200, {{10, problem.seqlen_q, 2}}, {{50, problem.seqlen_kv, 1}}};
    MemoryRecording recording(problem);
    fill(recording);
    write_recording(folder.file("run.h5"), recording);
    EXPECT_EQ(open_recording(folder.file("run.h5"))->problem(), problem);
    EXPECT_EQ(run_of(folder.file("run.h5")), "") << "it says no run";
    EXPECT_EQ(run_of(folder.file("missing.h5")), std::nullopt);
}

}  // namespace
}  // namespace tilescope::test
