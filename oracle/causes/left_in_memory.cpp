#include "oracle/causes/left_in_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "dump/recording/visible_tiles.h"
#include "dump/schema/semantics.h"
#include "oracle/formula/scores.h"
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

/// Whether both tiles are copies of the same keys: these are equal whatever is wrong with them.
bool is_same_copy(const CauseSearch& world, Stage stage, const TileId& a, const TileId& b) {
    const Problem& problem = world.recording().problem();
    return (stage == Stage::k || stage == Stage::v) && a.kv_tile == b.kv_tile && a.batch == b.batch &&
           problem.head_kv(a.head) == problem.head_kv(b.head);
}

/// Whether a kernel that skips what no row sees computes a tile of the block, of its split alone where `of_split`.
bool computes_tiles(const CauseSearch& world, const TileId& block, std::int64_t of_split) {
    const Problem& problem = world.call(block.batch, block.head)->problem;
    TileId tile = block;
    for (tile.kv_tile = 0; tile.kv_tile < problem.kv_tiles(); ++tile.kv_tile)
        if ((of_split < 0 || problem.split_of(tile.kv_tile) == of_split) &&
            tile_is_seen(world.recording(), problem, tile))
            return true;
    return false;
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
        // A block without tiles leaves everything as it is.
        if (earlier.empty() && computes_tiles(world, *block, split)) break;
        before.insert(before.begin(), earlier.begin(), earlier.end());
    }
    return before;
}

/// The split whose running state is kept; -1: the stage is none.
std::int64_t split_of_state(Stage stage, const SearchedTile& site) {
    const bool of_splits = stage == Stage::m || stage == Stage::l || stage == Stage::acc;
    return of_splits ? site.call->problem.split_of(site.id.kv_tile) : -1;
}

}  // namespace

std::vector<MatrixF> left_in_memory(Stage stage, const SearchedTile& site, std::int64_t behind) {
    const CauseSearch& world = *site.world;
    const std::int64_t split = split_of_state(stage, site);
    const std::vector<TileId> before = tiles_before(world, stage, site.id, behind + most_tiles, split);
    std::vector<MatrixF> left;
    for (std::int64_t at = std::ssize(before) - behind; at >= 0 && std::ssize(left) < most_tiles; --at) {
        const TileId& id = before[std::size_t(at)];
        const auto tile = load_tile(world.recording(), world.call(id.batch, id.head)->problem, stage, id);
        if (tile) left.push_back(*tile);
    }
    return left;
}

std::optional<MatrixF> left_by_block(Stage stage, const SearchedTile& site, std::int64_t behind) {
    const CauseSearch& world = *site.world;
    const Problem& problem = world.recording().problem();
    const std::int64_t blocks = problem.q_blocks();
    const std::int64_t heads = problem.heads;
    const std::int64_t at = (site.id.batch * heads + site.id.head) * blocks + site.id.q_block - behind;
    if (at < 0) return std::nullopt;
    const TileId block{at / blocks / heads, at / blocks % heads, at % blocks, 0};
    const std::vector<TileId> tiles = tiles_of(world, stage, block, -1);
    if (tiles.empty()) return std::nullopt;
    return load_tile(world.recording(), world.call(block.batch, block.head)->problem, stage, tiles.back());
}

namespace {

/// What stands in memory, in the dump's units; nullopt where that is not known.
using LeftElement = std::optional<float>;

SearchedTile bare_tile(const CauseSearch& world, const TileId& id) {
    SearchedTile tile;
    tile.world = &world;
    tile.id = id;
    tile.call = world.call(id.batch, id.head);
    tile.first_row = id.q_block * tile.call->problem.block_m;
    tile.first_key = id.kv_tile * tile.call->problem.block_n;
    return tile;
}

/// What a kernel writes beyond the end of a tile.
LeftElement filled(Stage stage, const SearchedTile& tile, Eigen::Index row, const MatrixF& dumped) {
    const Units& units = tile.call->units;
    if (is_operand(stage)) return 0.0f;
    // Of rows behind the last query nothing is dumped that tells.
    if (row >= dumped.rows()) return std::nullopt;
    if (stage == Stage::p) return 0.0f;
    return stage == Stage::s && units.s_masked ? LeftElement(float(units.s_masked_value)) : std::nullopt;
}

/// The tiles that were in the same memory, the last one first. Those that the kernel passed over left it as it was.
class MemoryBefore {
 public:
    MemoryBefore(Stage stage, const SearchedTile& site, std::int64_t behind)
        : stage_(stage), site_(site), behind_(behind) {
        const std::int64_t most = most_back * behind + site.call->problem.kv_tiles();
        before_ = tiles_before(*site.world, stage, site.id, most, split_of_state(stage, site));
    }

    LeftElement at(Eigen::Index row, Eigen::Index col, const IsLeft& is_left) {
        for (std::size_t i = 0; const Earlier* earlier = tile(i); ++i) {
            const MatrixF& dumped = earlier->dumped;
            if (row < dumped.rows() && col < dumped.cols()) return dumped(row, col);
            if (!is_left(earlier->tile, row, col)) return filled(stage_, earlier->tile, row, dumped);
        }
        return std::nullopt;
    }

 private:
    static constexpr std::int64_t most_back = 8;

    struct Earlier {
        SearchedTile tile;
        MatrixF dumped;
    };

    const Earlier* tile(std::size_t i) {
        while (i >= earlier_.size() && !before_.empty() && std::ssize(earlier_) < most_back)
            if (!load_next()) before_.clear();
        return i < earlier_.size() ? &earlier_[i] : nullptr;
    }

    /// The one `behind` tiles before the last one loaded.
    bool load_next() {
        const CauseSearch& world = *site_.world;
        for (std::int64_t passed = 0; !before_.empty();) {
            const TileId id = before_.back();
            before_.pop_back();
            Earlier earlier{bare_tile(world, id), {}};
            auto dumped = load_tile(world.recording(), earlier.tile.call->problem, stage_, id);
            if (!dumped) return false;
            const std::span<const float> all(dumped->data(), std::size_t(dumped->size()));
            if (std::ranges::all_of(all, is_unwritten) || ++passed < behind_) continue;
            if (earlier_.empty() && is_same_copy(world, stage_, id, site_.id)) return false;
            earlier.dumped = std::move(*dumped);
            earlier_.push_back(std::move(earlier));
            return true;
        }
        return false;
    }

    Stage stage_;
    const SearchedTile& site_;
    std::int64_t behind_;
    std::vector<TileId> before_;    ///< not loaded yet
    std::vector<Earlier> earlier_;  ///< that were in this memory
};

}  // namespace

bool is_left_anywhere(const SearchedTile&, Eigen::Index, Eigen::Index) {
    return true;
}

void take_left(Stage stage, const SearchedTile& site, std::int64_t behind, const IsLeft& is_left,
               Estimate& estimate) {
    const Eigen::Index rows = estimate.value.rows();
    const Eigen::Index cols = estimate.value.cols();
    const DumpFactor factor =
        is_operand(stage) ? DumpFactor()
                          : dump_factor(*site.call, stage, site.first_row, site.first_key, rows, cols);
    MemoryBefore memory(stage, site, behind);
    for (Eigen::Index i = 0; i < rows; ++i) {
        for (Eigen::Index j = 0; j < cols; ++j) {
            const LeftElement left = memory.at(i, j, is_left);
            if (!left || is_unwritten(*left)) {
                estimate.error(i, j) = infinity;
                continue;
            }
            const double value = double(*left) / factor.at(i, j);
            estimate.value(i, j) = value;
            estimate.error(i, j) = std::isfinite(value) ? 4 * u_f32 * std::abs(value) : 0;
        }
    }
}

void forget_phantoms(const SearchedTile&, MatrixF& left) {
    left.setConstant(float(quiet_nan));
}

MatrixF left_in_rows(Stage stage, const SearchedTile& site, const PhantomPass& pass) {
    const CauseSearch& world = *site.world;
    const Problem& whole = world.recording().problem();
    const TileShape shape = tile_shape(whole, stage);
    MatrixF left = MatrixF::Constant(shape.rows, shape.cols, float(quiet_nan));
    // Two blocks: the last one of a head may be short.
    const std::vector<TileId> before =
        tiles_before(world, stage, site.id, whole.kv_tiles() + 1, split_of_state(stage, site));
    std::size_t first = before.size();
    while (first > 0) {
        const TileId& id = before[--first];
        if (tile_extent(world.call(id.batch, id.head)->problem, stage, id).rows == shape.rows) break;
    }
    for (std::size_t i = first; i < before.size(); ++i) {
        const SearchedTile tile = bare_tile(world, before[i]);
        const auto dumped = load_tile(world.recording(), tile.call->problem, stage, tile.id);
        if (!dumped) return MatrixF::Constant(shape.rows, shape.cols, float(quiet_nan));
        if (dumped->rows() < shape.rows) pass(tile, left);
        // Past the last key there is what the mask leaves.
        if (stage == Stage::s)
            left.rightCols(shape.cols - dumped->cols()).setConstant(float(tile.call->units.s_masked_value));
        left.topLeftCorner(dumped->rows(), dumped->cols()) = *dumped;
    }
    return left;
}

bool finish_phantom_scores(const SearchedTile& tile, MatrixF& sums) {
    HeadCall call = *tile.call;
    const DumpFactor factor = dump_factor(call, Stage::s, tile.first_row, tile.first_key, 1, 1);
    // Of rows behind the last query there is neither a bias in an array nor a descale.
    if (call.read_bias || factor.row.size() > 0) return false;
    call.bounds = false;
    Estimate scaled = zeros(sums.rows(), tile.keys());
    scaled.value = sums.leftCols(tile.keys()).cast<double>();
    const Estimate s = dumped_from_scaled(call, tile.first_row, tile.first_key, std::move(scaled));
    sums.leftCols(tile.keys()) = (s.value * factor.scalar).cast<float>();
    return true;
}

}  // namespace tilescope
