#include "dump/watch.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "dump/schema/error.h"
#include "dump/watch/rules.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::string place_of(Stage stage, const TileId& tile) {
    const StageInfo& info = stage_info(stage);
    std::string text = "batch " + std::to_string(tile.batch) + ", head " + std::to_string(tile.head);
    if (info.per_q_block) text += ", q block " + std::to_string(tile.q_block);
    if (info.per_kv_tile) text += ", KV tile " + std::to_string(tile.kv_tile);
    return text;
}

/// Findings of one block, or of one head's dk and dv: the first tile of each rule and stage.
class BlockFindings {
 public:
    void add(const WatchRule& rule, Stage stage, const TileId& tile, const Breach& breach) {
        const auto same = [&](const WatchFinding& found) {
            return found.rule == &rule && found.stage == stage;
        };
        const auto found = std::ranges::find_if(findings_, same);
        if (found == findings_.end()) {
            findings_.push_back({&rule, stage, tile, breach});
        } else {
            ++found->tiles;
        }
    }
    void move_to(std::vector<WatchFinding>& all) {
        std::ranges::move(findings_, std::back_inserter(all));
        findings_.clear();
    }

 private:
    std::vector<WatchFinding> findings_;
};

/// A range that grows tile by tile, and is known as long as every tile is.
void extend(ValueRange& range, const std::optional<TileSummary>& tile, bool needs_finite) {
    const bool known = tile && tile->nan == 0 && !(needs_finite && tile->infinite > 0);
    range.known = range.known && known;
    if (!tile || tile->finite() == 0) return;
    range.least = std::min(range.least, double(tile->least));
    range.greatest = std::max(range.greatest, double(tile->greatest));
}

constexpr ValueRange nothing_yet = {infinity, -infinity, true};

SplitState new_split() {
    SplitState state;
    state.m_rises_above = -infinity;
    state.s = state.v = nothing_yet;
    return state;
}

class Watcher {
 public:
    Watcher(const StatisticsRun& run, WatchReport& report)
        : inputs_(run), call_(run, inputs_), report_(report) {}

    void watch_entry(std::int64_t batch) {
        const Problem entry = problem_of(call_.problem, call_.run.side_inputs(), batch);
        for (std::int64_t q_block = 0; q_block < entry.q_blocks(); ++q_block) {
            BlockCells cells;
            for (std::int64_t head = 0; head < entry.heads; ++head) {
                const TileId block{batch, head, q_block, 0};
                if (head == 0 || call_.run.has_bias()) cells = cells_of(call_.run, entry, block);
                watch_block(entry, cells, block);
            }
        }
        if (entry.direction == Direction::forward) return;
        for (std::int64_t head = 0; head < entry.dkv_heads(); ++head) {
            for (std::int64_t kv_tile = 0; kv_tile < entry.kv_tiles(); ++kv_tile) {
                for (const Stage stage : {Stage::dk, Stage::dv}) {
                    judge({call_, entry, stage, {batch, head, 0, kv_tile}}, false);
                }
            }
            found_.move_to(report_.findings);
        }
    }

 private:
    void watch_block(const Problem& entry, const BlockCells& cells, TileId id) {
        const auto of_block = [&](const StageInfo& info) { return info.per_q_block && !info.per_kv_tile; };
        for (const StageInfo& info : stages_of(entry.direction)) {
            if (!of_block(info) || is_output(info.stage)) continue;
            judge({call_, entry, info.stage, id, {}, {}, &cells}, cells.first.has_value());
        }
        SplitState state = new_split(), last = state;
        ValueRange all_v = nothing_yet, all_m = nothing_yet;
        std::int64_t split = 0;
        for (const std::int64_t kv_tile : cells.order) {
            id.kv_tile = kv_tile;
            const std::int64_t its_split = entry.split_of(kv_tile);
            if (its_split != split) state = new_split();
            split = its_split;
            if (!advance(entry, cells, id, state, all_v)) continue;
            if (cells.tiles[std::size_t(kv_tile)].visible) extend(all_m, state.of(Stage::m), false);
            for (const StageInfo& info : stages_of(entry.direction)) {
                if (!info.per_kv_tile || !info.per_q_block) continue;
                judge({call_, entry, info.stage, id, {}, {}, &cells, &state},
                      cells.tiles[std::size_t(kv_tile)].visible);
            }
            if (cells.last == kv_tile) last = state;
        }
        id.kv_tile = 0;
        all_v.known = all_v.known && cells.first;
        for (const StageInfo& info : stages_of(entry.direction)) {
            if (!of_block(info) || !is_output(info.stage)) continue;
            judge({call_, entry, info.stage, id, {}, {}, &cells, cells.last ? &last : nullptr, all_v, all_m},
                  cells.first.has_value());
        }
        found_.move_to(report_.findings);
    }

    /// Moves the state to the tile. False where the kernel had no reason to go, and did not.
    bool advance(const Problem& entry, const BlockCells& cells, const TileId& id, SplitState& state,
                 ValueRange& all_v) const {
        const SplitState before = state;
        const TileCells& cells_here = cells.tiles[std::size_t(id.kv_tile)];
        bool any = false;
        for (const StageInfo& info : stages_of(entry.direction)) {
            if (!info.per_kv_tile || !info.per_q_block) continue;
            std::optional<TileSummary>& now = state.now[std::size_t(info.stage)];
            now = call_.tile(entry, info.stage, id);
            any = any || now.has_value();
            state.all_rows[std::size_t(info.stage)] =
                now && has_all_rows(entry, info.stage, id, cells_here, now->written);
        }
        const bool visible = cells_here.visible;
        if (!visible && !any) {
            state = before;
            return false;
        }
        if (state.tiles > 0) {
            const std::optional<TileSummary> m = state.m_before = before.of_all_rows(Stage::m);
            state.l_before = before.of_all_rows(Stage::l);
            const bool clean = m && m->nan == 0;
            // A row that has seen no key is below any other.
            const double most = clean && m->finite() > 0 ? double(m->greatest) : -infinity;
            state.m_rises_above = clean ? most : infinity;
        }
        ++state.tiles;
        const std::optional<TileSummary>& m = state.of(Stage::m);
        if (m && m->finite() > 0) state.m_magnitude = std::max(state.m_magnitude, m->magnitude());
        // -inf is a score like any other.
        if (visible || state.of(Stage::s)) extend(state.s, state.of(Stage::s), false);
        if (visible || state.of(Stage::v)) {
            extend(state.v, state.of(Stage::v), true);
            extend(all_v, state.of(Stage::v), true);
        }
        return true;
    }

    void judge(WatchedTile tile, bool must_be_there) {
        const StatisticsRun& run = call_.run;
        const std::optional<TileSummary> got = run.tile(tile.stage, tile.id);
        if (!got || !run.is_hooked(tile.stage)) return;
        tile.got = *got;
        tile.extent = tile_extent(tile.entry, tile.stage, tile.id);
        if (tile.extent.rows <= 0 || tile.extent.cols <= 0) return;
        if (got->written == 0) {
            const Breach missing = {"elements written", 0, "is below", double(tile.extent.elements())};
            if (must_be_there) found_.add(watch_rule("missing"), tile.stage, tile.id, missing);
            return;
        }
        ++report_.tiles;
        if (tile.block != nullptr && stage_info(tile.stage).per_kv_tile)
            tile.all_rows = has_all_rows(tile.entry, tile.stage, tile.id, tile.cells(), got->written);
        const bool whole = call_.is_whole(tile.entry, tile.stage, tile.id);
        report_.beyond += !whole;
        for (const WatchRule& rule : all_watch_rules()) {
            const bool applies = (rule.stages >> unsigned(tile.stage) & 1u) != 0 && rule.breach != nullptr;
            if (!applies || (!whole && rule.name != "unwritten")) continue;
            const std::optional<Breach> breach = rule.breach(tile);
            if (breach) found_.add(rule, tile.stage, tile.id, *breach);
        }
    }

    InputSummaries inputs_;
    WatchedCall call_;
    WatchReport& report_;
    BlockFindings found_;
};

void sort_findings(const Units& units, std::vector<WatchFinding>& findings) {
    const bool reverse = units.kv_order == KvOrder::reverse;
    const auto key = [reverse](const WatchFinding& found) {
        const StageInfo& info = stage_info(found.stage);
        // Before, during and after the KV tiles.
        const int phase = info.per_kv_tile ? 1 : is_output(found.stage) ? 2 : 0;
        const TileId& tile = found.tile;
        return std::tuple(found.rule->severity, phase, reverse ? -tile.kv_tile : tile.kv_tile, found.stage,
                          tile.batch, tile.head, tile.q_block, found.rule);
    };
    std::ranges::stable_sort(findings, {}, key);
}

}  // namespace

std::string to_string(const WatchFinding& finding) {
    std::string text = std::string(stage_info(finding.stage).name) + " of " +
                       place_of(finding.stage, finding.tile) + ": " + to_string(finding.breach) + "; " +
                       std::string(finding.rule->sentence);
    if (finding.tiles > 1) text += " (" + std::to_string(finding.tiles) + " tiles of the block)";
    return text;
}

WatchReport watch(const StatisticsRun& run) {
    const CaptureSummary& capture = run.capture();
    if (capture.ended != "completed") {
        throw Error("the kernel failed (" + capture.ended + "), so its statistics are not judged", "watch",
                    "record it into mapped memory and see how far it came with tile-diff");
    }
    WatchReport report;
    Watcher watcher(run, report);
    for (std::int64_t batch = 0; batch < run.problem().batch; ++batch) watcher.watch_entry(batch);
    for (const StageInfo& info : stages_of(run.problem())) {
        report.without_room += run.plan().selected_tiles(info.stage) - run.plan().capacity(info.stage);
    }
    if (report.tiles == 0 && report.findings.empty()) {
        throw Error(
            "no hook wrote anything", "watch",
            "launch a kernel that is compiled with -DDEBUG_DUMP and gets the sink, and select a stage "
            "that it hooks");
    }
    sort_findings(run.units(), report.findings);
    return report;
}

void watch_repeat(const StatisticsRun& first, const StatisticsRun& second, WatchReport& report) {
    if (first.problem() != second.problem() || first.plan().selection() != second.plan().selection()) {
        throw Error("the launches are not of the same problem and selection", "watch",
                    "launch the same kernel twice");
    }
    const WatchRule& rule = watch_rule("not_repeatable");
    BlockFindings found;
    for (const StageInfo& info : stages_of(first.problem().direction)) {
        const CapturePlan& plan = first.plan();
        TileId before;
        for (std::int64_t slot = 0; slot < plan.capacity(info.stage); ++slot) {
            const TileId tile = plan.tile_of_slot(info.stage, slot);
            const TileSummary a = *first.tile(info.stage, tile), b = *second.tile(info.stage, tile);
            if (std::tuple(tile.batch, tile.head, tile.q_block) !=
                std::tuple(before.batch, before.head, before.q_block))
                found.move_to(report.findings);
            before = tile;
            if (a.hash == b.hash && a.written == b.written) continue;
            const Breach breach = {"sum", b.sum, "is of other bits than the first launch's", a.sum};
            found.add(rule, info.stage, tile, breach);
        }
        found.move_to(report.findings);
    }
    sort_findings(first.units(), report.findings);
}

}  // namespace tilescope
