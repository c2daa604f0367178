#include "kernels/attention/fast_hopper_schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/attention/steps.h"

namespace tilescope::test {
namespace {

constexpr std::int64_t mib = std::int64_t(1) << 20;

/// As many KV tiles as blocks of queries, of which each sees one more than the one before.
std::vector<int> square(int q_blocks) {
    std::vector<int> tiles(static_cast<std::size_t>(q_blocks));
    std::iota(tiles.begin(), tiles.end(), 1);
    return tiles;
}

/// Each block once, whatever is left of the heads in the end, and long blocks of the same heads first.
TEST(HopperSchedule, NumbersEveryBlockOnce) {
    for (const int at_once : {1, 2, 3, 7, 11, 22, 63, 64}) {
        const HopperSchedule schedule = {5, 64, at_once};
        std::vector<int> seen(5 * 64);
        int before = 0;
        for (int number = 0; number < 5 * 64; ++number) {
            const NumberedBlock block = block_of(schedule, number);
            ASSERT_TRUE(block.head >= 0 && block.head < 64 && block.q_block >= 0 && block.q_block < 5)
                << number;
            ++seen[std::size_t(block.head * 5 + block.q_block)];
            if (number > 0 && block.head / at_once == block_of(schedule, number - 1).head / at_once) {
                EXPECT_LE(block.q_block, before) << number << " of " << at_once;
            }
            before = block.q_block;
        }
        EXPECT_EQ(seen, std::vector<int>(5 * 64, 1)) << at_once << " heads at once";
    }
}

TEST(HopperSchedule, CountsKeysBehindTheMask) {
    AttentionArgs args;
    args.seqlen_q = 300;
    args.seqlen_kv = 260;
    args.causal_offset = -40;
    EXPECT_EQ(causal_tiles(args, 128, 64), (std::vector<int>{2, 4, 5}));
    args.causal_offset = -200;
    EXPECT_EQ(causal_tiles(args, 128, 64), (std::vector<int>{0, 1, 2}));
    args.causal_offset = 0;
    EXPECT_EQ(causal_tiles(args, 128, 64), (std::vector<int>{2, 4, 5}));
}

struct Tiles {
    static constexpr int block_m = 128;
    static constexpr int block_n = 64;
};

/// Host and kernel count alike; nvcc compiles what kernels call for the GPU alone.
TEST(HopperSchedule, CountsAsTheKernelDoes) {
    AttentionArgs args;
    args.causal = true;
    for (args.seqlen_q = 1; args.seqlen_q < 600; args.seqlen_q += 37) {
        for (args.seqlen_kv = 1; args.seqlen_kv < 600; args.seqlen_kv += 41) {
            for (const int offset : {0, args.seqlen_kv - args.seqlen_q}) {
                args.causal_offset = offset;
                const std::vector<int> tiles = causal_tiles(args, Tiles::block_m, Tiles::block_n);
                ASSERT_EQ(int(tiles.size()), (args.seqlen_q + Tiles::block_m - 1) / Tiles::block_m);
                for (int i = 0; i < int(tiles.size()); ++i)
                    ASSERT_EQ(tiles[std::size_t(i)], KERNEL_BUILD::kv_tile_count<Tiles>(args, i))
                        << args.seqlen_q << " x " << args.seqlen_kv << ", offset " << offset << ", block "
                        << i;
            }
        }
    }
}

TEST(HopperSchedule, DealsOutInTheOrderOfTheKernel) {
    const std::vector<int> tiles = square(17);
    for (const int at_once : {1, 6, 11, 20}) {
        const HopperSchedule schedule = {17, 20, at_once};
        std::vector<std::int64_t> of_threads(7);
        for (int number = 0; number < 17 * 20; ++number) {
            const int place = number % 7;
            of_threads[std::size_t(number / 7 % 2 == 0 ? place : 6 - place)] +=
                tiles[std::size_t(block_of(schedule, number).q_block)] + 1;
        }
        EXPECT_EQ(most_tiles({tiles, 20, 1, mib, 7}, at_once),
                  *std::max_element(of_threads.begin(), of_threads.end()));
    }
}

TEST(HopperSchedule, DealsBlocksOutForwardsAndBackwards) {
    const std::vector<int> tiles = {1, 2};
    // 2 2 1, then the last 1 to the thread block that was last.
    EXPECT_EQ(most_tiles({tiles, 2, 1, mib, 3}, 2), (1 + 1) + (1 + 1));
    // 2 1 2, then 1.
    EXPECT_EQ(most_tiles({tiles, 2, 1, mib, 3}, 1), (2 + 1) + (1 + 1));
}

TEST(HopperSchedule, TakesAllHeadsWhoseKeysFit) {
    const std::vector<int> tiles = square(8);
    EXPECT_EQ(heads_at_once({tiles, 24, 1, mib, 132}, 48 * mib), 24);
    EXPECT_LE(heads_at_once({tiles, 25, 1, mib, 132}, 48 * mib), 24);
}

TEST(HopperSchedule, LeavesNoThreadBlockWithMuchMore) {
    for (const int q_blocks : {16, 17, 32, 64}) {
        for (const int heads : {32, 48, 64, 128}) {
            const std::vector<int> tiles = square(q_blocks);
            const std::int64_t kv_bytes = std::int64_t(q_blocks) * 128 * 128 * 4;
            const CausalBlocks blocks = {tiles, heads, 1, kv_bytes, 132};
            const int at_once = heads_at_once(blocks, 50 * mib);
            EXPECT_LE(at_once * kv_bytes, 25 * mib);
            const std::int64_t all =
                std::accumulate(tiles.begin(), tiles.end(), std::int64_t(q_blocks)) * heads;
            EXPECT_LE(double(most_tiles(blocks, at_once)), 1.1 * double(all) / 132)
                << q_blocks << " blocks of " << heads << " heads, " << at_once << " at once";
        }
    }
}

TEST(HopperSchedule, DoesNotPartHeadsThatShareKeys) {
    const std::vector<int> tiles = square(32);
    EXPECT_EQ(heads_at_once({tiles, 64, 8, 2 * mib, 132}, 20 * mib) % 8, 0);
    EXPECT_EQ(heads_at_once({tiles, 64, 8, 200 * mib, 132}, 20 * mib), 8);
}

}  // namespace
}  // namespace tilescope::test
