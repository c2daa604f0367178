// The mask intervals against the masks' definitions, cell by cell.

#include "dump/schema/semantics.h"

#include <gtest/gtest.h>

#include "tests/oracle/exact_attention.h"

namespace tilescope::test {
namespace {

Problem shape(std::int64_t seqlen_q, std::int64_t seqlen_kv) {
    Problem p;
    p.seqlen_q = seqlen_q;
    p.seqlen_kv = seqlen_kv;
    p.block_m = 4;
    p.block_n = 3;
    return p;
}

/// Every mask there is, for one shape.
std::vector<Problem> masks_of(Problem p) {
    std::vector<Problem> problems;
    for (const Mask mask : {Mask::none, Mask::causal}) {
        for (const CausalAlignment alignment : {CausalAlignment::top_left, CausalAlignment::bottom_right}) {
            for (const std::int64_t left : {-1, 0, 1, 5}) {
                for (const std::int64_t right : {-1, 0, 1, 5}) {
                    for (const WindowBounds bounds : {WindowBounds::inclusive, WindowBounds::exclusive}) {
                        p.mask = mask;
                        p.causal_alignment = alignment;
                        p.window_left = left;
                        p.window_right = right;
                        p.window_bounds = bounds;
                        problems.push_back(p);
                    }
                }
            }
        }
    }
    return problems;
}

class MaskIntervals : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(MaskIntervals, HoldTheCellsThatTheMaskLeaves) {
    const auto [seqlen_q, seqlen_kv] = GetParam();
    for (const Problem& p : masks_of(shape(seqlen_q, seqlen_kv))) {
        SCOPED_TRACE(describe(p));
        for (std::int64_t row = 0; row < p.seqlen_q; ++row) {
            const KeyRange keys = visible_keys(p, row);
            for (std::int64_t key = 0; key < p.seqlen_kv; ++key)
                ASSERT_EQ(keys.contains(key), ExactAttention::visible(p, row, key)) << row << ", " << key;
        }
    }
}

TEST_P(MaskIntervals, TileIsVisibleWhereOneOfItsCellsIs) {
    const auto [seqlen_q, seqlen_kv] = GetParam();
    for (const Problem& p : masks_of(shape(seqlen_q, seqlen_kv))) {
        SCOPED_TRACE(describe(p));
        for (std::int64_t q_block = 0; q_block < p.q_blocks(); ++q_block) {
            for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
                bool any = false;
                for (std::int64_t row = q_block * 4;
                     row < std::min<std::int64_t>(p.seqlen_q, q_block * 4 + 4); ++row) {
                    for (std::int64_t key = kv_tile * 3;
                         key < std::min<std::int64_t>(p.seqlen_kv, kv_tile * 3 + 3); ++key)
                        any = any || ExactAttention::visible(p, row, key);
                }
                ASSERT_EQ(tile_is_visible(p, q_block, kv_tile), any) << q_block << ", " << kv_tile;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MaskIntervals,
                         ::testing::Values(std::pair{1, 1}, std::pair{7, 7}, std::pair{4, 13},
                                           std::pair{13, 4}, std::pair{1, 9}, std::pair{9, 1},
                                           std::pair{8, 9}),
                         [](const auto& param) {
                             return std::to_string(param.param.first) + "x" +
                                    std::to_string(param.param.second);
                         });

}  // namespace
}  // namespace tilescope::test
