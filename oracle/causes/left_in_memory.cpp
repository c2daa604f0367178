#include "oracle/causes/left_in_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "dump/schema/semantics.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// A tile at the end is smaller than those before it, but not than all of them.
constexpr std::int64_t most_tiles = 3;

/// The query block that a block of the grid computes before this one, if it computes several.
std::optional<TileId> block_before(const CauseSearch& world, TileId block) {
    const Problem& problem = world.recording().problem();
    block.kv_tile = 0;
    if (block.q_block > 0) return --block.q_block, block;
    if (block.head == 0 && block.batch == 0) return std::nullopt;
    block.head = block.head > 0 ? block.head - 1 : problem.heads - 1;
    if (block.head == problem.heads - 1) --block.batch;
    block.q_block = world.call(block.batch, block.head)->problem.q_blocks() - 1;
    return block;
}

/// The block's tiles that were dumped, in the order of the kernel; of its split alone where `of_split`.
std::vector<TileId> tiles_of(const CauseSearch& world, Stage stage, TileId block, std::int64_t of_split) {
    const Problem& problem = world.call(block.batch, block.head)->problem;
    const KvOrder order = world.recording().units().kv_order;
    const bool per_kv_tile = stage_info(stage).per_kv_tile;
    std::vector<TileId> tiles;
    for (std::int64_t i = 0; i < (per_kv_tile ? problem.kv_tiles() : 1); ++i) {
        block.kv_tile = per_kv_tile ? kv_tile_in_order(problem, order, i) : 0;
        if (of_split >= 0 && problem.split_of(block.kv_tile) != of_split) continue;
        if (world.recording().has_tile(stage, block)) tiles.push_back(block);
    }
    return tiles;
}

/// Whether both tiles are copies of the same keys.
bool is_same_copy(const CauseSearch& world, Stage stage, const TileId& a, const TileId& b) {
    const Problem& problem = world.recording().problem();
    return (stage == Stage::k || stage == Stage::v) && a.kv_tile == b.kv_tile && a.batch == b.batch &&
           problem.head_kv(a.head) == problem.head_kv(b.head);
}

/// The gradient that was summed up before in the same place: of the query block before, or of the KV head before.
std::optional<TileId> gradient_before(const CauseSearch& world, Stage stage, TileId id) {
    if (stage == Stage::dq) return block_before(world, id);
    if (id.head == 0 && id.batch == 0) return std::nullopt;
    const std::int64_t heads = stage_heads(world.recording().problem(), stage);
    id.batch -= id.head == 0;
    id.head = (id.head + heads - 1) % heads;
    return id;
}

/// The tiles that were in the same memory before, the last one last.
std::vector<TileId> tiles_before(const CauseSearch& world, Stage stage, const TileId& id, std::int64_t count,
                                 std::int64_t split) {
    std::vector<TileId> before;
    if (is_gradient(stage)) {
        if (const auto earlier = gradient_before(world, stage, id)) before.push_back(*earlier);
        return before;
    }
    // A running state is set anew in each block: what the tile before left of it is no mistake.
    if (split < 0) {
        before = tiles_of(world, stage, id, split);
        before.erase(std::ranges::find(before, id), before.end());
    }
    for (auto block = block_before(world, id); block && std::ssize(before) < count;
         block = block_before(world, *block)) {
        const std::vector<TileId> earlier = tiles_of(world, stage, *block, split);
        if (earlier.empty()) break;
        before.insert(before.begin(), earlier.begin(), earlier.end());
    }
    return before;
}

}  // namespace

std::vector<MatrixF> left_in_memory(Stage stage, const SearchedTile& site, std::int64_t behind) {
    const CauseSearch& world = *site.world;
    const bool of_splits = stage == Stage::m || stage == Stage::l || stage == Stage::acc;
    const std::int64_t split = of_splits ? site.call->problem.split_of(site.id.kv_tile) : -1;
    const std::vector<TileId> before = tiles_before(world, stage, site.id, behind + most_tiles, split);
    std::vector<MatrixF> left;
    for (std::int64_t at = std::ssize(before) - behind; at >= 0 && std::ssize(left) < most_tiles; --at) {
        const TileId& id = before[std::size_t(at)];
        if (is_same_copy(world, stage, id, site.id)) break;
        const auto tile = load_tile(world.recording(), world.call(id.batch, id.head)->problem, stage, id);
        if (tile) left.push_back(*tile);
    }
    return left;
}

void take_left(Stage stage, const SearchedTile& site, std::span<const MatrixF> tiles, Estimate& estimate) {
    const Eigen::Index rows = estimate.value.rows();
    const Eigen::Index cols = estimate.value.cols();
    const DumpFactor factor =
        is_operand(stage) ? DumpFactor()
                          : dump_factor(*site.call, stage, site.first_row, site.first_key, rows, cols);
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const auto has_it = [&](const MatrixF& tile) { return i < tile.rows() && j < tile.cols(); };
            const auto tile = std::ranges::find_if(tiles, has_it);
            if (tile == tiles.end() || is_unwritten((*tile)(i, j))) {
                estimate.error(i, j) = infinity;
                continue;
            }
            estimate.value(i, j) = double((*tile)(i, j)) / factor.at(i, j);
            estimate.error(i, j) = 4 * u_f32 * std::abs(estimate.value(i, j));
        }
    }
}

}  // namespace tilescope
