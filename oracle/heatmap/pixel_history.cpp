#include "oracle/heatmap/pixel_history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "dump/recording/visible_tiles.h"
#include "dump/schema/semantics.h"
#include "dump/schema/side_inputs.h"
#include "oracle/judge/observe.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

using MomentKind = HistoryMoment::Kind;

enum class Features : std::uint8_t {
    one,  ///< the output's column alone
    all   ///< a sum over them goes into it
};

struct StepRule {
    Stage stage;
    MomentKind kind;
    Features features;
};

constexpr std::array o_steps = {
    StepRule{Stage::q, MomentKind::loaded, Features::all},
    StepRule{Stage::k, MomentKind::tile, Features::all},
    StepRule{Stage::v, MomentKind::tile, Features::one},
    StepRule{Stage::s, MomentKind::tile, Features::all},
    StepRule{Stage::m, MomentKind::tile, Features::all},
    StepRule{Stage::p, MomentKind::tile, Features::all},
    StepRule{Stage::l, MomentKind::tile, Features::all},
    StepRule{Stage::acc, MomentKind::tile, Features::one},
    StepRule{Stage::o, MomentKind::result, Features::one},
    StepRule{Stage::lse, MomentKind::result, Features::all},
};
constexpr std::array dq_steps = {
    StepRule{Stage::q, MomentKind::loaded, Features::all},
    StepRule{Stage::dout, MomentKind::loaded, Features::all},
    StepRule{Stage::delta, MomentKind::loaded, Features::all},
    StepRule{Stage::k, MomentKind::tile, Features::all},
    StepRule{Stage::v, MomentKind::tile, Features::all},
    StepRule{Stage::s, MomentKind::tile, Features::all},
    StepRule{Stage::p, MomentKind::tile, Features::all},
    StepRule{Stage::dp, MomentKind::tile, Features::all},
    StepRule{Stage::ds, MomentKind::tile, Features::all},
    StepRule{Stage::dq, MomentKind::result, Features::one},
};
constexpr std::array dk_and_dv_steps = {
    StepRule{Stage::q, MomentKind::tile, Features::all},
    StepRule{Stage::k, MomentKind::tile, Features::all},
    StepRule{Stage::v, MomentKind::tile, Features::all},
    StepRule{Stage::s, MomentKind::tile, Features::all},
    StepRule{Stage::p, MomentKind::tile, Features::all},
    StepRule{Stage::dout, MomentKind::tile, Features::all},
    StepRule{Stage::delta, MomentKind::tile, Features::all},
    StepRule{Stage::dp, MomentKind::tile, Features::all},
    StepRule{Stage::ds, MomentKind::tile, Features::all},
    StepRule{Stage::dk, MomentKind::result, Features::one},
    StepRule{Stage::dv, MomentKind::result, Features::one},
};

std::span<const StepRule> rules_of(const Problem& problem, bool of_key) {
    if (problem.direction == Direction::forward) return o_steps;
    if (of_key) return dk_and_dv_steps;
    return dq_steps;
}

/// One element, judged.
struct Seen {
    StepState state = StepState::right;
    Element element;
    std::optional<Element> end_to_end;

    double ratio() const { return end_to_end ? end_to_end->ratio() : element.ratio(); }
};

Seen seen_at(const ObservedTile& tile, Eigen::Index row, Eigen::Index col) {
    Seen seen;
    seen.element = judged_element(tile, row, col);
    if (is_divergence(seen.element.finding)) {
        seen.state = StepState::wrong;
    } else if (is_inherited(tile, row, col)) {
        seen.state = StepState::inherited;
        ObservedTile whole = tile;
        whole.expected = tile.end_to_end;
        seen.end_to_end = judged_element(whole, row, col);
    } else if (seen.element.finding != Finding::match) {
        seen.state = StepState::not_judged;
    }
    return seen;
}

/// What a step goes over in a tile.
struct Gathered {
    std::optional<Seen> worst;  ///< of those that are wrong or inherited
    std::int64_t wrong = 0;
    std::int64_t inherited = 0;
    /// Those to be shown where none is bad: one for each key, or q row, that the step sums over, or one alone.
    std::vector<Seen> line;

    void add(const Seen& seen) {
        if (seen.state < StepState::inherited) return;
        ++(seen.state == StepState::wrong ? wrong : inherited);
        const bool worse = !worst || seen.state > worst->state ||
                           (seen.state == worst->state && seen.ratio() > worst->ratio());
        if (worse) worst = seen;
    }
};

struct Range {
    Eigen::Index first = 0;
    Eigen::Index last = 0;
};

class Gatherer {
 public:
    Gatherer(const Recording& recording, const Recording* other, const HistoryPlace& place)
        : recording_(recording),
          other_(other),
          place_(place),
          entry_(problem_of(recording.problem(), recording.side_inputs(), place.batch)),
          rules_(rules_of(entry_, place.of_key)) {}

    void observe(const ObservedTile& tile) {
        const auto* rule = rule_of(tile.context.stage);
        if (rule == nullptr || !is_of_line(tile.context)) return;
        const StageInfo& info = stage_info(rule->stage);
        const Range rows = range_of(info.row_axis, *rule, tile.context.first_row, tile.got.rows());
        const Range cols = range_of(info.col_axis, *rule, tile.context.first_col, tile.got.cols());
        Gathered gathered;
        for (Eigen::Index row = rows.first; row < rows.last; ++row)
            for (Eigen::Index col = cols.first; col < cols.last; ++col) gathered.add(seen_at(tile, row, col));
        gather_line(tile, info, rows, cols, gathered);
        gathered_[{rule->stage, tile.context.tile}] = std::move(gathered);
    }

    PixelHistory history() const {
        PixelHistory history{place_, {}};
        if (place_.line >= (place_.of_key ? entry_.seqlen_kv : entry_.seqlen_q)) return history;
        history.moments.push_back(moment(MomentKind::loaded, first_tile()));
        for (const TileId& tile : tiles()) history.moments.push_back(moment(MomentKind::tile, tile));
        history.moments.push_back(moment(MomentKind::result, first_tile()));
        std::erase_if(history.moments, [](const HistoryMoment& m) { return m.steps.empty(); });
        return history;
    }

 private:
    const StepRule* rule_of(Stage stage) const {
        const auto found = std::ranges::find(rules_, stage, &StepRule::stage);
        return found == rules_.end() ? nullptr : &*found;
    }
    Axis line_axis() const { return place_.of_key ? Axis::key : Axis::query; }
    Axis other_axis() const { return place_.of_key ? Axis::query : Axis::key; }

    /// Tiles of other KV tiles than that of the key, or of other query blocks than that of the row, are not.
    bool is_of_line(const TileContext& context) const {
        const StageInfo& info = stage_info(context.stage);
        const std::int64_t block = place_.line / (place_.of_key ? entry_.block_n : entry_.block_m);
        if (place_.of_key) return !info.per_kv_tile || context.tile.kv_tile == block;
        return !info.per_q_block || context.tile.q_block == block;
    }

    Range range_of(Axis axis, const StepRule& rule, std::int64_t first, Eigen::Index length) const {
        const auto only = [&](std::int64_t at) {
            return at >= 0 && at < length ? Range{at, at + 1} : Range{};
        };
        if (axis == line_axis()) return only(place_.line - first);
        if (axis == Axis::feature && rule.features == Features::one) return only(place_.feature);
        return {0, length};
    }

    /// The elements of the output's column, where the stage has one; otherwise of the first column.
    void gather_line(const ObservedTile& tile, const StageInfo& info, Range rows, Range cols,
                     Gathered& gathered) const {
        const auto narrowed = [&](Axis axis, Range range) {
            if (axis == other_axis() || range.first == range.last) return range;
            const Eigen::Index feature = axis == Axis::feature ? place_.feature : 0;
            const Eigen::Index at = std::clamp<Eigen::Index>(feature, range.first, range.last - 1);
            return axis == line_axis() ? range : Range{at, at + 1};
        };
        rows = narrowed(info.row_axis, rows);
        cols = narrowed(info.col_axis, cols);
        for (Eigen::Index row = rows.first; row < rows.last; ++row)
            for (Eigen::Index col = cols.first; col < cols.last; ++col)
                gathered.line.push_back(seen_at(tile, row, col));
    }

    TileId first_tile() const {
        TileId tile{place_.batch, place_.head, 0, 0};
        (place_.of_key ? tile.kv_tile : tile.q_block) =
            place_.line / (place_.of_key ? entry_.block_n : entry_.block_m);
        return tile;
    }

    std::vector<TileId> tiles() const {
        std::vector<TileId> tiles;
        TileId tile = first_tile();
        if (!place_.of_key) {
            for (std::int64_t i = 0; i < entry_.kv_tiles(); ++i) {
                tile.kv_tile = kv_tile_in_order(entry_, recording_.units().kv_order, i);
                tiles.push_back(tile);
            }
            return tiles;
        }
        const HeadRange heads = query_heads(entry_, Stage::dk, group_head());
        for (std::int64_t i = 0; i < heads.size(); ++i) {
            tile.head = heads.at(i);
            for (tile.q_block = 0; tile.q_block < entry_.q_blocks(); ++tile.q_block) tiles.push_back(tile);
        }
        return tiles;
    }

    /// The head of dk that the query head goes into.
    std::int64_t group_head() const { return stage_head(entry_, Stage::dk, place_.head); }

    /// The stage's tile that belongs to a tile of scores.
    TileId tile_of(Stage stage, TileId tile) const {
        const StageInfo& info = stage_info(stage);
        tile.head = stage_head(entry_, stage, tile.head);
        if (!info.per_q_block) tile.q_block = 0;
        if (!info.per_kv_tile) tile.kv_tile = 0;
        return tile;
    }

    const Gathered* find(Stage stage, const TileId& tile) const {
        const auto found = gathered_.find({stage, tile_of(stage, tile)});
        return found == gathered_.end() ? nullptr : &found->second;
    }

    /// The key, or q row, to be shown of a tile: its place in the tile.
    std::size_t shown_in(const TileId& tile) const {
        if (is_asked(tile)) return std::size_t(*place_.key % entry_.block_n);
        // p is what values are weighted with; of a row it is largest where s is.
        const Gathered* weights = find(Stage::p, tile);
        if (weights == nullptr) weights = find(Stage::s, tile);
        std::size_t heaviest = 0;
        double most = -std::numeric_limits<double>::infinity();
        for (std::size_t i = 0; weights != nullptr && i < weights->line.size(); ++i) {
            const double got = weights->line[i].element.got;
            if (std::isfinite(got) && got > most) {
                most = got;
                heaviest = i;
            }
        }
        return heaviest;
    }
    bool is_asked(const TileId& tile) const {
        return place_.key && !place_.of_key && *place_.key / entry_.block_n == tile.kv_tile;
    }

    HistoryMoment moment(MomentKind kind, const TileId& tile) const {
        HistoryMoment moment{kind, tile, {}};
        const std::size_t shown = kind == MomentKind::tile ? shown_in(tile) : 0;
        for (const StepRule& rule : rules_)
            if (rule.kind == kind) moment.steps.push_back(step(rule.stage, tile, shown));
        return moment;
    }

    HistoryStep step(Stage stage, const TileId& tile, std::size_t shown) const {
        HistoryStep step;
        step.stage = stage;
        const Gathered* gathered = find(stage, tile);
        if (gathered == nullptr || gathered->line.empty()) {
            step.state = state_without_values(stage, tile_of(stage, tile));
            step.wrong = step.state == StepState::wrong ? 1 : 0;
            return step;
        }
        step.wrong = gathered->wrong;
        step.inherited = gathered->inherited;
        const Seen& quiet = gathered->line[std::min(shown, gathered->line.size() - 1)];
        const bool asked = is_asked(tile) && gathered->line.size() > 1;
        const Seen& seen = asked || !gathered->worst ? quiet : *gathered->worst;
        step.state = seen.state;
        step.element = seen.element;
        step.end_to_end = seen.end_to_end;
        return step;
    }

    StepState state_without_values(Stage stage, const TileId& tile) const {
        if (!recording_.has_stage(stage)) return StepState::not_recorded;
        const StageInfo& info = stage_info(stage);
        if (info.per_q_block && info.per_kv_tile && !tile_is_seen(recording_, entry_, tile))
            return StepState::hidden;
        if (recording_.has_tile(stage, tile)) return StepState::not_judged;
        const bool missing = other_ != nullptr ? is_missing_in_pair(recording_, *other_, entry_, stage, tile)
                                               : must_hold(recording_, entry_, stage, tile);
        return missing ? StepState::wrong : StepState::not_recorded;
    }

    const Recording& recording_;
    const Recording* other_;
    HistoryPlace place_;
    Problem entry_;
    std::span<const StepRule> rules_;
    std::map<std::pair<Stage, TileId>, Gathered> gathered_;
};

}  // namespace

std::string_view to_string(StepState state) {
    constexpr std::array<std::string_view, step_state_count> names = {
        "not recorded", "hidden by the mask", "not judged", "right", "inherited", "wrong"};
    return names[static_cast<std::size_t>(state)];
}

std::optional<PixelHistory::Index> PixelHistory::first_wrong(std::span<const Stage> undeclared) const {
    const auto is_wrong = [&](const HistoryStep& step) {
        return step.wrong > 0 && std::ranges::find(undeclared, step.stage) == undeclared.end();
    };
    for (std::size_t i = 0; i < moments.size(); ++i) {
        const auto& steps = moments[i].steps;
        const auto wrong = std::ranges::find_if(steps, is_wrong);
        if (wrong != steps.end()) return Index{i, std::size_t(wrong - steps.begin())};
    }
    return std::nullopt;
}

std::vector<Stage> history_stages(const Problem& problem, bool of_key, HistoryMoment::Kind kind) {
    std::vector<Stage> stages;
    for (const StepRule& rule : rules_of(problem, of_key))
        if (rule.kind == kind) stages.push_back(rule.stage);
    return stages;
}

PixelHistory pixel_history(const Recording& recording, const Recording* other, JudgeOptions options,
                           const HistoryPlace& place) {
    Gatherer gatherer(recording, other, place);
    // What is shown is gathered in one place.
    options.threads = 1;
    const auto observe = [&](const ObservedTile& tile) { gatherer.observe(tile); };
    if (!place.of_key) {
        const std::int64_t block = place.line / recording.problem().block_m;
        observe_tiles(recording, other, options, place.batch, place.head, block, observe, observe);
        return gatherer.history();
    }
    const Problem& problem = recording.problem();
    const std::int64_t group = problem.heads / stage_heads(problem, Stage::dk);
    const std::int64_t first = place.head / group * group;
    for (std::int64_t head = first; head < first + group; ++head)
        observe_tiles(recording, other, options, place.batch, head, std::nullopt, observe, observe);
    return gatherer.history();
}

}  // namespace tilescope
