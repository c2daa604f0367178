#include "oracle/causes/left_in_memory.h"

#include <limits>

#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

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

/// The last tile of the block that was dumped before `kv_tile` in the kernel's order; of its split alone where
/// `of_split`.
std::optional<MatrixF> last_dumped(const CauseSearch& world, Stage stage, TileId block,
                                   std::optional<std::int64_t> before, std::int64_t of_split) {
    const Problem& problem = world.call(block.batch, block.head)->problem;
    const KvOrder order = world.recording().units().kv_order;
    std::optional<MatrixF> last;
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        block.kv_tile = kv_tile_in_order(problem, order, i);
        if (before && block.kv_tile == *before) return last;
        if (of_split >= 0 && problem.split_of(block.kv_tile) != of_split) continue;
        if (world.recording().has_tile(stage, block))
            last = load_tile(world.recording(), problem, stage, block);
    }
    return last;
}

/// The gradient that was summed up before in the same place: of the query block before, or of the KV head before.
std::optional<MatrixF> gradient_before(Stage stage, const SearchedTile& site) {
    const CauseSearch& world = *site.world;
    TileId id = site.id;
    if (stage == Stage::dq) {
        const std::optional<TileId> block = block_before(world, id);
        if (!block) return std::nullopt;
        id = *block;
    } else {
        if (id.head == 0 && id.batch == 0) return std::nullopt;
        const std::int64_t heads = stage_heads(site.call->problem, stage);
        id.batch -= id.head == 0;
        id.head = (id.head + heads - 1) % heads;
    }
    return load_tile(world.recording(), world.call(id.batch, id.head)->problem, stage, id);
}

/// Whether a running state is kept there over the tiles of a block.
bool is_running(Stage stage) {
    return stage == Stage::m || stage == Stage::l || stage == Stage::acc;
}

/// Puts the tiles of the block in `memory`, in the order of the kernel, up to `end`.
void lay_tiles(const CauseSearch& world, Stage stage, TileId block, std::optional<std::int64_t> end,
               bool shows_through, MatrixF& memory) {
    const Problem& problem = world.call(block.batch, block.head)->problem;
    const std::int64_t tiles = stage_info(stage).per_kv_tile ? problem.kv_tiles() : 1;
    for (std::int64_t i = 0; i < tiles; ++i) {
        block.kv_tile = tiles > 1 ? kv_tile_in_order(problem, world.recording().units().kv_order, i) : 0;
        if (end == block.kv_tile) return;
        const auto tile = load_tile(world.recording(), problem, stage, block);
        if (tile && !shows_through) memory.setConstant(std::numeric_limits<float>::quiet_NaN());
        if (tile) memory.topLeftCorner(tile->rows(), tile->cols()) = *tile;
    }
}

}  // namespace

MatrixF memory_before(Stage stage, const SearchedTile& site, bool shows_through) {
    const CauseSearch& world = *site.world;
    const TileShape shape = tile_shape(site.call->problem, stage);
    MatrixF memory = MatrixF::Constant(shape.rows, shape.cols, std::numeric_limits<float>::quiet_NaN());
    const std::optional<TileId> before = block_before(world, site.id);
    const std::optional<TileId> earlier = before ? block_before(world, *before) : std::nullopt;
    if (earlier) lay_tiles(world, stage, *earlier, std::nullopt, shows_through, memory);
    if (before) lay_tiles(world, stage, *before, std::nullopt, shows_through, memory);
    if (stage_info(stage).per_kv_tile)
        lay_tiles(world, stage, site.id, site.id.kv_tile, shows_through, memory);
    return memory;
}

std::optional<MatrixF> left_in_memory(Stage stage, const SearchedTile& site) {
    if (is_gradient(stage)) return gradient_before(stage, site);
    const bool by_tile = stage_info(stage).per_kv_tile && !is_running(stage);
    if (by_tile)
        if (auto left = last_dumped(*site.world, stage, site.id, site.id.kv_tile, -1)) return left;
    const std::optional<TileId> block = block_before(*site.world, site.id);
    if (!block) return std::nullopt;
    if (!stage_info(stage).per_kv_tile)
        return load_tile(site.world->recording(), site.world->call(block->batch, block->head)->problem, stage,
                         *block);
    const std::int64_t split = by_tile ? -1 : site.call->problem.split_of(site.id.kv_tile);
    return last_dumped(*site.world, stage, *block, std::nullopt, split);
}

}  // namespace tilescope
