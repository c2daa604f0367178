#include "oracle/causes/replayed.h"

#include <algorithm>
#include <cmath>

#include "dump/schema/error.h"
#include "oracle/causes/walk.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

std::vector<ReplayedTile> tiles_of(const CauseSearch& world, const FoundCause& cause, const TileId& block,
                                   std::span<const Change> changes) {
    std::vector<ReplayedTile> tiles;
    const Stage stage = cause.observed;
    ChangedReplay walk(world, block, cause.stage, changes);
    walk.run(stage, [&](const SearchedTile& site, const Estimate& expected) {
        DumpFactor factor;
        if (!is_operand(stage))
            factor = dump_factor(*site.call, stage, site.first_row, site.first_key, expected.value.rows(),
                                 expected.value.cols());
        tiles.push_back({site.id, in_dump_units(expected, factor)});
    });
    return tiles;
}

/// Rows of the dumped tile in which something is not as a healthy kernel has it.
std::vector<bool> bad_rows(const CauseSearch& world, Stage stage, const ReplayedTile& healthy) {
    const Problem entry = world.call(healthy.id.batch, healthy.id.head)->problem;
    std::vector<bool> bad(std::size_t(healthy.expected.value.rows()), false);
    const auto got = load_tile(world.recording(), entry, stage, healthy.id);
    if (!got) return bad;
    TileContext context =
        tile_context(world.recording(), entry, world.recording().units(), stage, healthy.id, *got);
    context.expects_nan = is_operand(stage);
    for (Eigen::Index i = 0; i < got->size(); ++i) {
        const Expected expected = expected_of(healthy.expected, i, world.compare());
        if (is_divergence(judge_element(context, i / got->cols(), got->data()[i], expected)))
            bad[std::size_t(i / got->cols())] = true;
    }
    return bad;
}

}  // namespace

std::vector<ReplayedTile> replayed_tiles(const CauseSearch& world, const FoundCause& cause,
                                         const TileId& block) {
    if (!cause.changes) return {};
    std::vector<ReplayedTile> tiles = tiles_of(world, cause, block, *cause.changes);
    if (cause.scope == Scope::everywhere || cause.scope == Scope::ruled) return tiles;
    const std::vector<ReplayedTile> healthy = tiles_of(world, cause, block, {});
    for (ReplayedTile& tile : tiles) {
        const auto same = std::ranges::find(healthy, tile.id, &ReplayedTile::id);
        if (same == healthy.end()) continue;
        const std::vector<bool> bad = bad_rows(world, cause.observed, *same);
        const bool any = std::ranges::find(bad, true) != bad.end();
        for (std::size_t i = 0; i < bad.size(); ++i) {
            if (cause.scope == Scope::bad_rows ? bool(bad[i]) : any) continue;
            const auto row = Eigen::Index(i);
            tile.expected.value.row(row) = same->expected.value.row(row);
            tile.expected.error.row(row) = same->expected.error.row(row);
        }
    }
    return tiles;
}

ReplayedRecording::ReplayedRecording(const Recording& recording, const FoundCause& cause, double confidence)
    : RecordingView(recording),
      cause_(cause),
      world_(recording, {}, confidence),
      provenance_(recording.provenance()) {
    if (!cause.changes)
        throw Error("no replay knows what " + title_of(cause) + " leaves", recording.name(),
                    "leave --replay-out out");
    provenance_.kernel +=
        (provenance_.kernel.empty() ? "" : ", ") + std::string("replayed with ") + title_of(cause);
    // Formulas are evaluated now: while a file is written, their threads would wait for what its writer holds.
    in_block_ = block_of_tile(cause.observed, {});
    tiles_ = replayed_tiles(world_, cause_, *in_block_);
}

bool ReplayedRecording::read_tile(Stage stage, const TileId& tile, Span<float> out) const {
    if (!of().read_tile(stage, tile, out)) return false;
    if (stage != cause_.observed) return true;
    const std::scoped_lock lock(mutex_);
    const TileId block = block_of_tile(stage, tile);
    if (in_block_ != block) {
        tiles_ = replayed_tiles(world_, cause_, block);
        in_block_ = block;
    }
    const auto found = std::ranges::find(tiles_, tile, &ReplayedTile::id);
    if (found == tiles_.end()) return true;
    const auto& [value, error, spread] = found->expected;
    const std::int64_t cols = tile_shape(problem(), stage).cols;
    for (Eigen::Index i = 0; i < value.rows(); ++i) {
        for (Eigen::Index j = 0; j < value.cols(); ++j) {
            // What the mistake leaves open, such as memory before the first tile, stays as it was dumped.
            if (!std::isinf(error(i, j))) out[std::size_t(i * cols + j)] = float(value(i, j));
        }
    }
    return true;
}

}  // namespace tilescope
