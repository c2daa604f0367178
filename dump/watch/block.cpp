#include "dump/watch/block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "dump/recording/visible_tiles.h"

namespace tilescope {

namespace {

void see_of_block(std::span<const std::int64_t> seen, BlockCells& block) {
    block.keyless_rows = std::ranges::count(seen, 0);
    if (!seen.empty()) block.most_keys = std::ranges::max(seen);
}

}  // namespace

BlockCells cells_of(const Recording& run, const Problem& entry, const TileId& q_block) {
    BlockCells block;
    block.tiles.resize(std::size_t(entry.kv_tiles()));
    block.order.resize(block.tiles.size());
    std::iota(block.order.begin(), block.order.end(), std::int64_t(0));
    if (run.units().kv_order == KvOrder::reverse) std::ranges::reverse(block.order);

    const std::int64_t rows = std::min(entry.block_m, entry.seqlen_q - q_block.q_block * entry.block_m);
    std::vector<std::int64_t> seen(std::size_t(std::max(rows, std::int64_t(0))));
    std::vector<std::int64_t> seen_of_block(seen.size());
    TileId tile = q_block;
    std::int64_t split = -1;
    for (const std::int64_t kv_tile : block.order) {
        const std::int64_t its_split = entry.split_of(kv_tile);
        if (its_split != split) std::ranges::fill(seen, 0);
        split = its_split;
        TileCells& cells = block.tiles[std::size_t(kv_tile)];
        const std::int64_t first_key = kv_tile * entry.block_n;
        const std::int64_t last_key = std::min(first_key + entry.block_n, entry.seqlen_kv);
        tile.kv_tile = kv_tile;
        for (std::size_t row = 0; row < seen.size(); ++row) {
            const std::int64_t keys = keys_seen(run, entry, tile, std::int64_t(row));
            seen_of_block[row] += keys;
            cells.visible = cells.visible || keys > 0;
            cells.seeing_rows += keys > 0;
            cells.hidden += last_key - first_key - keys;
            seen[row] += keys;
            cells.keyless_rows += seen[row] == 0;
            cells.most_keys = std::max(cells.most_keys, seen[row]);
        }
        if (!cells.visible) continue;
        if (!block.first) block.first = kv_tile;
        block.last = kv_tile;
    }
    see_of_block(seen_of_block, block);
    return block;
}

std::int64_t least_written(const Problem& entry, Stage stage, const TileId& tile, const TileCells& cells) {
    const TileShape extent = tile_extent(entry, stage, tile);
    const bool of_rows = stage_info(stage).row_axis == Axis::query;
    return of_rows ? cells.seeing_rows * extent.cols : extent.elements();
}

bool has_all_rows(const Problem& entry, Stage stage, const TileId& tile, const TileCells& cells,
                  std::int64_t written) {
    const std::int64_t all = tile_extent(entry, stage, tile).elements();
    const std::int64_t least = least_written(entry, stage, tile, cells);
    if (least == all || written == all) return true;
    return written % all == 0 && (least == 0 || written % least != 0);
}

double ValueRange::magnitude() const {
    return std::max(std::abs(least), std::abs(greatest));
}

const InputSummary& InputSummaries::of(const Problem& entry, Input input, Stage stage, const TileId& tile) {
    const bool of_keys = stage_info(stage).per_kv_tile;
    const std::int64_t head = of_keys ? entry.head_kv(tile.head) : tile.head;
    const std::int64_t row = of_keys ? tile.kv_tile * entry.block_n : tile.q_block * entry.block_m;
    const auto [known, is_new] = known_[std::size_t(input)].try_emplace({tile.batch, head, row});
    InputSummary& summary = known->second;
    if (!is_new) return summary;
    const TileShape extent = tile_extent(entry, stage, tile);
    std::vector<float> values(std::size_t(extent.elements()));
    run_.read_input(input, tile.batch, head, row, extent.rows, values);
    summary = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), 0};
    for (const float value : values) {
        summary.zero += value == 0;
        if (!std::isfinite(value)) continue;
        summary.least = std::min(summary.least, double(value));
        summary.greatest = std::max(summary.greatest, double(value));
    }
    return summary;
}

bool WatchedCall::is_whole(const Problem& entry, Stage stage, const TileId& id) const {
    return tile_extent(entry, stage, id) == tile_extent(problem, stage, id);
}

std::optional<TileSummary> WatchedCall::tile(const Problem& entry, Stage stage, const TileId& id) const {
    const std::optional<TileSummary> found = run.tile(stage, id);
    if (!found || found->written == 0 || !is_whole(entry, stage, id)) return std::nullopt;
    return found;
}

std::optional<double> WatchedTile::sum_of(const TileSummary& tile, std::int64_t elements) {
    if (tile.finite() != tile.written || tile.written % elements != 0) return std::nullopt;
    const std::int64_t writes_of_each = tile.written / elements;
    return tile.sum / double(writes_of_each);
}

std::optional<std::int64_t> WatchedTile::writes_of(std::int64_t elements) const {
    if (elements == 0) return 0;
    if (!all_rows || got.written % extent.elements() != 0) return std::nullopt;
    return elements * (got.written / extent.elements());
}

}  // namespace tilescope
