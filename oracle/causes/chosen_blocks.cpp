#include "oracle/causes/chosen_blocks.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace tilescope {

namespace {

constexpr std::size_t most_bad_blocks = 10;
constexpr std::size_t most_good_blocks = 4;

/// Evenly from the heads, and in each from the first and the last block inwards.
std::vector<TileId> spread(const std::vector<TileId>& blocks, std::size_t most) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<TileId>> of_head;
    for (const TileId& block : blocks) of_head[{block.head, block.batch}].push_back(block);
    // Heads first, so that maps of heads show; few of many are taken evenly.
    std::vector<std::vector<TileId>> heads;
    for (auto& [head, list] : of_head) heads.push_back(std::move(list));
    std::vector<TileId> chosen;
    const std::size_t step = std::max<std::size_t>(1, heads.size() / std::max<std::size_t>(1, most));
    for (std::size_t round = 0; chosen.size() < most; ++round) {
        const std::size_t before = chosen.size();
        for (std::size_t h = 0; h < heads.size() && chosen.size() < most; h += step) {
            const std::vector<TileId>& list = heads[h];
            if (round >= list.size()) continue;
            // Of many heads one block is seen of each: not the first one of all.
            const std::size_t turn = (round + (heads.size() >= most ? h / step : 0)) % list.size();
            chosen.push_back(turn % 2 == 0 ? list[turn / 2] : list[list.size() - 1 - turn / 2]);
        }
        if (chosen.size() == before) break;
    }
    std::ranges::sort(chosen);
    return chosen;
}

/// Some good blocks, half of them where other heads have bad ones: they tell that a mistake is not made in their head.
std::vector<TileId> telling(std::vector<TileId> good, const std::set<TileId>& bad, std::size_t most) {
    std::set<std::pair<std::int64_t, std::int64_t>> bad_places;
    for (const TileId& block : bad) bad_places.emplace(block.q_block, block.kv_tile);
    const auto others = std::ranges::stable_partition(good, [&](const TileId& block) {
        return bad_places.contains({block.q_block, block.kv_tile});
    });
    const std::size_t half = std::max(most / 2, most - std::min(most, others.size()));
    std::vector<TileId> chosen = spread({good.begin(), others.begin()}, half);
    for (const TileId& block : spread({others.begin(), others.end()}, most - chosen.size()))
        chosen.push_back(block);
    return chosen;
}

/// So many blocks, fewer where each of them goes through many tiles: a gradient is replayed from all of them.
std::size_t affordable(const Problem& problem, Stage observed, std::size_t most) {
    constexpr std::int64_t most_tiles = 640;
    if (!is_gradient(observed)) return most;
    const std::int64_t tiles =
        observed == Stage::dq ? problem.kv_tiles() : problem.q_blocks() * problem.dkv_group();
    return std::size_t(std::clamp<std::int64_t>(most_tiles / std::max<std::int64_t>(tiles, 1), 2, most));
}

/// The blocks of which something of the stage diverges. A bad row of k or v names no query block: those of every tile
/// are looked at, of many heads in turn.
std::set<TileId> bad_blocks(const CauseSearch& world, const Report& report, Stage observed) {
    std::set<TileId> blocks;
    const Problem& problem = world.recording().problem();
    const StageTally& tally = report.stage(observed).tally;
    const auto last_block = [&](std::int64_t batch) {
        return problem_of(problem, world.recording().side_inputs(), batch).q_blocks() - 1;
    };
    if (observed == Stage::k || observed == Stage::v) {
        const std::int64_t first = tally.first ? tally.first->tile.q_block : 0;
        std::set<std::pair<std::int64_t, std::int64_t>> heads;
        for (const BadRow& row : tally.bad_rows) heads.emplace(row.batch, row.head);
        const bool are_few = 2 * heads.size() <= most_bad_blocks;
        for (std::size_t turn = 0; const auto& [batch, head] : heads) {
            const std::int64_t last = last_block(batch);
            const std::array q_blocks = {std::min(first, last), std::int64_t(0), last};
            if (are_few)
                for (const std::int64_t q_block : q_blocks) blocks.insert({batch, head, q_block, 0});
            else
                blocks.insert({batch, head, q_blocks[turn++ % q_blocks.size()], 0});
        }
    } else {
        const bool by_keys = is_of_all_queries(observed);
        for (const BadRow& row : tally.bad_rows) {
            const std::int64_t block = row.row / (by_keys ? problem.block_n : problem.block_m);
            blocks.insert({row.batch, row.head, by_keys ? 0 : block, by_keys ? block : 0});
        }
    }
    return blocks;
}

std::vector<TileId> good_blocks(const CauseSearch& world, Stage observed, const std::set<TileId>& bad) {
    std::vector<TileId> blocks;
    const Problem& problem = world.recording().problem();
    const Stage blocks_of = stage_of_blocks(observed);
    for (std::int64_t i = 0; i < tile_count(problem, blocks_of); ++i) {
        const TileId block = tile_at(problem, blocks_of, i);
        if (bad.contains(block)) continue;
        const Problem entry = problem_of(problem, world.recording().side_inputs(), block.batch);
        if (tile_extent(entry, blocks_of, block).rows <= 0) continue;
        bool captured = world.recording().has_tile(observed, block);
        for (std::int64_t kv = 0; kv < problem.kv_tiles() && blocks_of == Stage::q && !captured; ++kv)
            captured = world.recording().has_tile(observed, {block.batch, block.head, block.q_block, kv});
        if (captured) blocks.push_back(block);
    }
    return blocks;
}

}  // namespace

ChosenBlocks choose_blocks(const CauseSearch& world, const Report& report, Stage observed) {
    const Problem& problem = world.recording().problem();
    const std::set<TileId> bad = bad_blocks(world, report, observed);
    return {spread({bad.begin(), bad.end()}, affordable(problem, observed, most_bad_blocks)),
            telling(good_blocks(world, observed, bad), bad, affordable(problem, observed, most_good_blocks))};
}

}  // namespace tilescope
