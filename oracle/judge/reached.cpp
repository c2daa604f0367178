#include "oracle/judge/reached.h"

#include "oracle/judge/team.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <optional>
#include <ranges>
#include <span>
#include <string_view>
#include <tuple>

#include "dump/recording/visible_tiles.h"

namespace tilescope {

namespace {

/// The stage whose last tile of a query block is computed last; o rather than lse, since more kernels dump
/// it.
Stage finishing_stage(const Recording& recording) {
    if (recording.has_stage(Stage::o)) return Stage::o;
    for (const StageInfo& info : std::views::reverse(stages_of(recording.problem().direction))) {
        if (info.per_q_block && recording.has_stage(info.stage)) return info.stage;
    }
    return Stage::o;
}

/// How much of a tile was written.
struct Written {
    std::int64_t elements = 0;
    bool whole = false;
};

/// Looks at query blocks, one after the other.
class BlockReader {
 public:
    explicit BlockReader(const Recording& recording)
        : recording_(recording), finishing_(finishing_stage(recording)) {}

    /// nullopt where nothing of the finishing stage was asked for.
    std::optional<ReachedBlock> read(const TileId& q_block) {
        const Problem entry = problem_of(recording_.problem(), recording_.side_inputs(), q_block.batch);
        if (tile_extent(entry, Stage::q, q_block).rows <= 0) return std::nullopt;
        const std::vector<TileId> tiles = kv_tiles_of(entry, q_block);
        const bool of_kv_tiles = stage_info(finishing_).per_kv_tile;
        if ((of_kv_tiles && tiles.empty()) || !selects(entry, finishing_, q_block)) return std::nullopt;

        ReachedBlock block = last_written(entry, q_block, tiles);
        const TileId last = of_kv_tiles ? tiles.back() : q_block;
        if (written(entry, finishing_, last).whole) block.reach = Reach::finished;
        return block;
    }

 private:
    bool selects(const Problem& entry, Stage stage, TileId tile) const {
        const std::optional<Selection>& selection = recording_.capture().selection;
        if (!selection) return true;
        Selection any_kv_tile = *selection;
        any_kv_tile.kv_tile = {};
        return any_kv_tile.selects(entry, stage, tile);
    }

    /// Those that the block takes and that were asked for, in its order.
    std::vector<TileId> kv_tiles_of(const Problem& entry, TileId tile) const {
        const std::optional<Selection>& selection = recording_.capture().selection;
        std::vector<TileId> tiles;
        for (tile.kv_tile = 0; tile.kv_tile < entry.kv_tiles(); ++tile.kv_tile) {
            const bool asked = !selection || selection->kv_tile.contains(tile.kv_tile);
            if (asked && tile_is_seen(recording_, entry, tile)) tiles.push_back(tile);
        }
        if (recording_.units().kv_order == KvOrder::reverse) std::ranges::reverse(tiles);
        return tiles;
    }

    /// From the end: outputs, then the KV tiles, then what is computed before them.
    ReachedBlock last_written(const Problem& entry, const TileId& q_block, std::span<const TileId> tiles) {
        enum Phase { before, during, after };
        const auto phase_of = [](const StageInfo& info) {
            return info.per_kv_tile ? during : is_output(info.stage) ? after : before;
        };
        std::optional<ReachedBlock> found;
        const auto look_for = [&](Phase phase, const TileId& tile) {
            for (const StageInfo& info : std::views::reverse(stages_of(entry.direction))) {
                const bool here = info.per_q_block && phase_of(info) == phase;
                if (found || !here || !recording_.has_stage(info.stage)) continue;
                const Written there = written(entry, info.stage, tile);
                if (there.elements == 0) continue;
                found = {q_block, Reach::under_way, info.stage, tile.kv_tile, there.whole};
            }
        };
        look_for(after, q_block);
        for (const TileId& tile : std::views::reverse(tiles)) {
            if (!found) look_for(during, tile);
        }
        look_for(before, q_block);
        return found.value_or(ReachedBlock{q_block});
    }

    Written written(const Problem& entry, Stage stage, const TileId& tile) {
        const TileShape shape = tile_shape(entry, stage);
        const TileShape extent = tile_extent(entry, stage, tile);
        values_.resize(std::size_t(shape.elements()));
        if (!recording_.read_tile(stage, tile, values_)) return {};
        Written there;
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            const std::span<const float> inside(&values_[std::size_t(row * shape.cols)],
                                                std::size_t(extent.cols));
            there.elements += extent.cols - std::ranges::count_if(inside, is_unwritten);
        }
        there.whole = there.elements == extent.elements();
        return there;
    }

    const Recording& recording_;
    Stage finishing_;
    std::vector<float> values_;
};

/// Ascending the further a block is, in the order of computation.
auto progress_of(const ReachedBlock& block, bool reverse) {
    const StageInfo& info = stage_info(block.stage);
    const int phase = info.per_kv_tile ? 1 : is_output(block.stage) ? 2 : 0;
    return std::tuple(phase, reverse ? -block.kv_tile : block.kv_tile, block.stage, block.whole);
}

}  // namespace

std::int64_t RunReach::count(Reach reach) const {
    return std::ranges::count(blocks, reach, &ReachedBlock::reach);
}

RunReach reached_blocks(const Recording& recording) {
    const std::int64_t count = tile_count(recording.problem(), Stage::q);
    std::vector<std::optional<ReachedBlock>> found(static_cast<std::size_t>(count));
    std::atomic<bool> failed = false;
    std::exception_ptr failure;
#pragma omp parallel num_threads(team_size(0))
    {
        BlockReader reader(recording);
#pragma omp for schedule(dynamic)
        for (std::int64_t i = 0; i < count; ++i) {
            if (failed) continue;
            try {
                found[std::size_t(i)] = reader.read(tile_at(recording.problem(), Stage::q, i));
            } catch (...) {
#pragma omp critical
                if (!failed.exchange(true)) failure = std::current_exception();
            }
        }
    }
    if (failure) std::rethrow_exception(failure);

    RunReach reached;
    reached.finishing = finishing_stage(recording);
    reached.reverse = recording.units().kv_order == KvOrder::reverse;
    for (const std::optional<ReachedBlock>& block : found) {
        if (block) reached.blocks.push_back(*block);
    }
    return reached;
}

std::string how_it_ended(const std::string& ended) {
    if (ended == ended_running) return "the run did not end: killed, or still running";
    return "the run ended with \"" + ended + "\"";
}

std::string_view name_of(Reach reach) {
    constexpr std::array<std::string_view, 3> names = {"not_begun", "under_way", "finished"};
    return names[static_cast<std::size_t>(reach)];
}

std::string to_text(const RunReach& reached) {
    constexpr std::size_t most = 8;
    const StageInfo& finishing = stage_info(reached.finishing);
    std::string text =
        fmt::format("reached: {} of {} query blocks finished {}{}, {} under way, {} not begun\n",
                    reached.count(Reach::finished), reached.blocks.size(), finishing.name,
                    finishing.per_kv_tile ? " of their last KV tile" : "", reached.count(Reach::under_way),
                    reached.count(Reach::not_begun));
    std::vector<ReachedBlock> behind;
    std::ranges::copy_if(reached.blocks, std::back_inserter(behind),
                         [](const ReachedBlock& block) { return block.reach == Reach::under_way; });
    std::ranges::stable_sort(behind, {},
                             [&](const ReachedBlock& block) { return progress_of(block, reached.reverse); });
    for (const ReachedBlock& block : behind | std::views::take(most)) {
        const StageInfo& info = stage_info(block.stage);
        text += fmt::format("  batch {}, head {}, q block {}: {} of {}{}\n", block.q_block.batch,
                            block.q_block.head, block.q_block.q_block, block.whole ? "the whole" : "part",
                            info.name, info.per_kv_tile ? fmt::format(" of KV tile {}", block.kv_tile) : "");
    }
    if (behind.size() > most) text += fmt::format("  and {} further on\n", behind.size() - most);
    return text;
}

}  // namespace tilescope
