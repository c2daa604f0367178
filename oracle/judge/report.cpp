#include "oracle/judge/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tilescope {

std::int64_t Report::compared() const {
    std::int64_t elements = 0;
    for (const StageReport& stage : stages) elements += stage.tally.compared;
    return elements;
}

StageState state_of(const Report& report, Stage stage) {
    const StageReport& found = report.stage(stage);
    if (!found.captured) return StageState::not_captured;
    if (!found.undeclared.empty()) return StageState::not_declared;
    if (found.tally.diverges())
        return report.guilty == stage ? StageState::first_wrong : StageState::wrong_too;
    if (found.tally.inherited > 0) return StageState::inherited;
    if (found.tally.compared > 0) return StageState::ok;
    return found.tally.not_judged > 0 ? StageState::not_judged : StageState::not_compared;
}

std::string_view state_text(const Report& report, Stage stage) {
    struct Words {
        std::string_view alone;
        std::string_view of_pair;
    };
    constexpr std::array<Words, 8> words = {{{"not captured", "not captured"},
                                             {"not compared", "not compared"},
                                             {"not judged", "not judged"},
                                             {"not declared", "not declared"},
                                             {"ok", "same"},
                                             {"inherited", "inherited"},
                                             {"wrong too", "differs too"},
                                             {"FIRST WRONG", "FIRST TO DIFFER"}}};
    const Words& state = words[static_cast<std::size_t>(state_of(report, stage))];
    return report.other.empty() ? state.alone : state.of_pair;
}

std::string tensor_place_of(const Problem& problem, Stage stage, const Element& element) {
    const StageInfo info = stage_info(problem, stage);
    std::string place = fmt::format("batch {}, head {}", element.tile.batch, element.tile.head);
    const bool keys = info.row_axis == Axis::key;
    const bool by_query = info.row_axis == Axis::query || info.col_axis == Axis::query;
    if (info.per_q_block && !by_query) place += fmt::format(", q block {}", element.tile.q_block);
    place += fmt::format(", {} {}", keys ? "key" : "row", element.row);
    if (info.col_axis == Axis::key) place += fmt::format(", key {}", element.col);
    if (info.col_axis == Axis::query) place += fmt::format(", row {}", element.col);
    const bool columns =
        is_named(stage) && info.col_axis == Axis::unit && tile_shape(problem, stage).cols > 1;
    if (info.col_axis == Axis::feature || columns) place += fmt::format(", column {}", element.col);
    if (info.per_kv_tile) place += fmt::format(", KV tile {}", element.tile.kv_tile);
    return place;
}

std::optional<Owner> owner_of(const Problem& problem, const ThreadLayouts& threads, Stage stage,
                              const Element& element) {
    const std::optional<ThreadMap> map = thread_map(problem, stage, threads, "threads");
    if (!map) return std::nullopt;
    const TileShape shape = tile_shape(problem, stage);
    return map->owner(element.tile, element.row % shape.rows, element.col % shape.cols);
}

std::string place_of(const Problem& problem, const ThreadLayouts& threads, Stage stage,
                     const Element& element) {
    const std::optional<Owner> owner = owner_of(problem, threads, stage, element);
    return fmt::format("{} (row {} of its tile{})", tensor_place_of(problem, stage, element),
                       element.row % tile_shape(problem, stage).rows,
                       owner ? "; " + to_string(*owner) : std::string());
}

std::string digits_of(double value) {
    return std::isnan(value) ? "nan" : fmt::format("{:.9g}", value);
}

std::string values_of(const Element& element) {
    switch (element.finding) {
        case Finding::unwritten:
            return "no thread wrote it";
        case Finding::conflicting:
            return "written again with different values, somewhere in this tile";
        default:
            return fmt::format("got {}, expected {} +- {:.3g}", digits_of(element.got),
                               digits_of(element.expected), element.tolerance);
    }
}

std::string_view name_of(EmptyRow empty) {
    constexpr std::array<std::string_view, empty_row_kinds> names = {"zero", "-inf", "inf", "nan"};
    return names[static_cast<std::size_t>(empty)];
}

}  // namespace tilescope
