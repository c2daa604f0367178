#pragma once

// In which order blocks of queries are dealt out to thread blocks that stay.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention/attention_args.h"
#include "kernels/attention/platform.h"

namespace tilescope {

/// How blocks of queries are numbered. `heads_at_once` heads are taken together, and of these the last blocks
/// come first, which see the most keys behind a causal mask.
struct HopperSchedule {
    int q_blocks;
    int heads;  ///< of all batch entries
    int heads_at_once;
    /// Of a launch that records, in device memory: HopperQueueHead, and the numbers of all blocks in the order in which they
    /// are taken. Null in others, whose blocks are dealt out beforehand.
    int* queue = nullptr;
};

struct NumberedBlock {
    int head;  ///< of all batch entries
    int q_block;
};

KERNEL_FUNCTION NumberedBlock block_of(const HopperSchedule& schedule, int number) {
    const int together = schedule.q_blocks * schedule.heads_at_once;
    const int first_head = number / together * schedule.heads_at_once;
    const int left = schedule.heads - first_head;
    const int heads = left < schedule.heads_at_once ? left : schedule.heads_at_once;
    const int in_heads = number % together;
    return {first_head + in_heads % heads, schedule.q_blocks - 1 - in_heads / heads};
}

/// Blocks of queries behind a causal mask.
struct CausalBlocks {
    std::span<const int> kv_tiles;  ///< [q_block]: that it sees, more in later ones
    int heads = 0;                  ///< of all batch entries
    int heads_of_kv = 1;            ///< heads that share K and V
    std::int64_t kv_bytes = 0;      ///< of K and V of one KV head
    int thread_blocks = 1;
};

/// What kv_tile_count() is on the GPU, of each block of queries.
inline std::vector<int> causal_tiles(const AttentionArgs& args, int block_m, int block_n) {
    std::vector<int> tiles;
    for (int end = block_m; end < args.seqlen_q + block_m; end += block_m) {
        const int keys = std::min(args.seqlen_kv, std::min(args.seqlen_q, end) + args.causal_offset);
        tiles.push_back(keys > 0 ? (keys + block_n - 1) / block_n : 0);
    }
    return tiles;
}

/// KV tiles of the thread block that has the most, where so many heads at once are dealt out, their long blocks first,
/// from the first thread block to the last and in the next round the other way; taking a block up counts as one more.
inline std::int64_t most_tiles(const CausalBlocks& blocks, int heads_at_once) {
    std::vector<std::int64_t> tiles(std::size_t(blocks.thread_blocks));
    std::int64_t round = 0;
    int place = 0;
    for (int first = 0; first < blocks.heads; first += heads_at_once) {
        const int heads = std::min(heads_at_once, blocks.heads - first);
        for (auto seen = blocks.kv_tiles.rbegin(); seen != blocks.kv_tiles.rend(); ++seen) {
            for (int head = 0; head < heads; ++head) {
                tiles[std::size_t(round % 2 == 0 ? place : blocks.thread_blocks - 1 - place)] += *seen + 1;
                if (++place < blocks.thread_blocks) continue;
                place = 0;
                ++round;
            }
        }
    }
    return *std::max_element(tiles.begin(), tiles.end());
}

/// How many heads to deal out at once: as many as leave no thread block with much more than the others, of those whose K
/// and V stay in half of the L2 together. Heads that share K and V are not parted.
inline int heads_at_once(const CausalBlocks& blocks, std::int64_t l2_bytes) {
    const int groups = blocks.heads / blocks.heads_of_kv;
    const auto fitting = int(std::clamp<std::int64_t>(l2_bytes / 2 / blocks.kv_bytes, 1, groups));
    int best = fitting * blocks.heads_of_kv;
    if (fitting == groups) return best;
    std::int64_t least = most_tiles(blocks, best);
    for (int heads = best - blocks.heads_of_kv; heads > 0; heads -= blocks.heads_of_kv) {
        const std::int64_t most = most_tiles(blocks, heads);
        if (most >= least) continue;
        least = most;
        best = heads;
    }
    return best;
}

}  // namespace tilescope
