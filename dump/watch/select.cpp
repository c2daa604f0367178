#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "dump/schema/semantics.h"
#include "dump/watch.h"
#include "dump/watch/block.h"

namespace tilescope {

namespace {

/// More of them make a text that is too long to read back.
constexpr std::size_t most_blocks = 4096;

using Block = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // batch, head, query block

struct Suspects {
    std::set<Block> blocks;
    std::int64_t first_kv_tile = std::numeric_limits<std::int64_t>::max();
    std::int64_t last_kv_tile = 0;
};

/// The finding's blocks and the KV tiles that they took up to it.
Suspects suspects_of(const Problem& problem, const Units& units, const WatchFinding& finding) {
    const StageInfo& info = stage_info(finding.stage);
    const TileId& tile = finding.tile;
    const std::int64_t last_tile = problem.kv_tiles() - 1;
    Suspects suspects;
    if (!info.per_q_block) {
        const HeadRange heads = query_heads(problem, finding.stage, tile.head);
        for (std::int64_t i = 0; i < heads.size(); ++i) {
            for (std::int64_t q = 0; q < problem.q_blocks(); ++q)
                suspects.blocks.emplace(tile.batch, heads.at(i), q);
        }
        suspects.first_kv_tile = suspects.last_kv_tile = tile.kv_tile;
        return suspects;
    }
    suspects.blocks.emplace(tile.batch, tile.head, tile.q_block);
    // Outputs come after the last KV tile, operands of the block before the first.
    const bool reverse = units.kv_order == KvOrder::reverse;
    std::int64_t up_to = tile.kv_tile;
    if (!info.per_kv_tile) {
        up_to = reverse ? 0 : last_tile;
        const std::int64_t step = reverse ? 1 : -1;
        while (up_to + step >= 0 && up_to + step <= last_tile &&
               !tile_is_visible(problem, tile.q_block, up_to))
            up_to += step;
    }
    suspects.first_kv_tile = reverse ? up_to : 0;
    suspects.last_kv_tile = reverse ? last_tile : up_to;
    return suspects;
}

/// Bytes that a capture takes of so many query blocks, with dk and dv of all their heads: as many as
/// CapturePlan says, or up to 512 more.
std::size_t bytes_of(const Problem& problem, std::size_t blocks, std::int64_t kv_tiles) {
    const bool backward = problem.direction == Direction::backward;
    const std::int64_t dkv_heads = backward ? problem.batch * problem.dkv_heads() : 0;
    const std::int64_t tables =
        problem.batch * problem.heads * problem.q_blocks() + problem.kv_tiles() + dkv_heads;
    std::size_t bytes = sizeof(SinkCounters) + std::size_t(tables) * sizeof(std::int32_t) + 512;
    for (const StageInfo& info : stages_of(problem.direction)) {
        const std::size_t outer = info.per_q_block ? blocks : std::min(blocks, std::size_t(dkv_heads));
        const std::size_t tiles = outer * std::size_t(info.per_kv_tile ? kv_tiles : 1);
        bytes += tiles * sizeof(std::uint32_t) * std::size_t(tile_shape(problem, info.stage).elements() + 1);
    }
    return bytes;
}

Selection selection_of(const Suspects& suspects) {
    Selection selection;
    selection.kv_tile.ranges = {{suspects.first_kv_tile, suspects.last_kv_tile}};
    for (const auto& [batch, head, q_block] : suspects.blocks) {
        if (!selection.blocks.empty()) {
            QBlocks& before = selection.blocks.back();
            if (before.batch == batch && before.head == head && before.q_blocks.last + 1 == q_block) {
                before.q_blocks.last = q_block;
                continue;
            }
        }
        selection.blocks.push_back({batch, head, {q_block, q_block}});
    }
    return selection;
}

}  // namespace

SuspectSelection select_suspects(const Problem& problem, const Units& units, const WatchReport& report,
                                 std::size_t budget) {
    SuspectSelection result;
    Suspects chosen;
    for (const WatchFinding& finding : report.findings) {
        const Suspects suspects = suspects_of(problem, units, finding);
        const auto is_new = [&](const Block& block) { return !chosen.blocks.contains(block); };
        const std::size_t blocks =
            chosen.blocks.size() + std::size_t(std::ranges::count_if(suspects.blocks, is_new));
        const std::int64_t first = std::min(chosen.first_kv_tile, suspects.first_kv_tile);
        const std::int64_t last = std::max(chosen.last_kv_tile, suspects.last_kv_tile);
        const std::size_t bytes = bytes_of(problem, blocks, last - first + 1);
        if (blocks > most_blocks || bytes > budget) {
            const std::int64_t alone = suspects.last_kv_tile - suspects.first_kv_tile + 1;
            if (result.left_out++ == 0) result.least_bytes = bytes_of(problem, suspects.blocks.size(), alone);
            continue;
        }
        chosen.blocks.insert(suspects.blocks.begin(), suspects.blocks.end());
        chosen.first_kv_tile = first;
        chosen.last_kv_tile = last;
        result.bytes = bytes;
        ++result.dumped;
    }
    if (result.dumped > 0) result.selection = selection_of(chosen);
    return result;
}

}  // namespace tilescope
