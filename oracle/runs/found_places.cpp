#include "oracle/runs/found_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "oracle/judge/tile_judge.h"
#include "oracle/runs/pattern.h"
#include "oracle/runs/places.h"

namespace tilescope {

namespace {

/// A cause that is told from the places of what is wrong.
struct Pattern {
    std::string_view cause;
    std::vector<CauseParameter> parameters;
    Holds holds;
    bool of_tiles = false;  ///< holds whole tiles, in which some elements may be right by chance
};

/// Lines of bad tiles in which something is wrong, over all of them.
std::vector<bool> bad_lines(const SeenTiles& evidence, bool columns) {
    std::vector<bool> bad;
    for (const SeenTile* const tile : evidence.tiles) {
        const SeenTile& seen = *tile;
        const Eigen::Index lines = columns ? seen.got.cols() : seen.got.rows();
        bad.resize(std::max(bad.size(), std::size_t(lines)), false);
        for (Eigen::Index i = 0; i < seen.got.rows(); ++i)
            for (Eigen::Index j = 0; j < seen.got.cols(); ++j)
                if (seen.is_wrong(i, j)) bad[std::size_t(columns ? j : i)] = true;
    }
    return bad;
}

/// `warps_known`: the threads are declared, and none of their warps has to be guessed.
void add_lines(const SeenTiles& evidence, bool columns, bool warps_known, std::vector<Pattern>& patterns) {
    const std::vector<bool> bad = bad_lines(evidence, columns);
    const auto places = places_of(bad);
    const auto length = std::ssize(bad);
    if (!places || places->count == length) return;
    const auto contains = [=, places = *places](const SeenTile& seen, Eigen::Index row, Eigen::Index col) {
        return seen.is_bad() && places.contains(columns ? col : row);
    };
    const CauseParameter lines{columns ? "columns" : "rows", to_string(*places)};
    if (places->period > 0) {
        patterns.push_back(
            {columns ? "periodic_columns" : "periodic_rows",
             {{"period", std::to_string(places->period)}, {"phase", std::to_string(places->first)}, lines},
             contains});
    } else if (!columns && !warps_known && places->first % 16 == 0 && places->count % 16 == 0) {
        patterns.push_back({"one_warp",
                            {lines, {"warp", fmt::format("{} where each has 16 rows", places->first / 16)}},
                            contains});
    } else {
        patterns.push_back({"tile_edge", {lines}, contains});
    }
}

/// The only value of a coordinate that diverges, where there are others that do not.
template <class Coordinate>
void add_only(const Report& report, const SeenTiles& evidence, std::string_view cause, const char* name,
              std::int64_t count, Coordinate coordinate, std::vector<Pattern>& patterns) {
    std::set<std::int64_t> bad;
    for (const BadRow& row : report.stage(evidence.stage).tally.bad_rows) bad.insert(coordinate(row));
    if (bad.size() != 1 || count < 2) return;
    const std::int64_t only = *bad.begin();
    patterns.push_back({cause,
                        {{name, std::to_string(only)}},
                        [=](const SeenTile& seen, Eigen::Index, Eigen::Index) {
                            return coordinate(BadRow{seen.id.batch, seen.id.head, 0, 0}) == only;
                        },
                        true});
}

void add_kv_tile(const SeenTiles& evidence, std::vector<Pattern>& patterns) {
    std::set<std::int64_t> bad;
    std::set<std::int64_t> all;
    for (const SeenTile* const tile : evidence.tiles) {
        const SeenTile& seen = *tile;
        all.insert(seen.id.kv_tile);
        if (seen.is_bad()) bad.insert(seen.id.kv_tile);
    }
    if (bad.size() != 1 || all.size() < 2) return;
    patterns.push_back({"one_kv_tile",
                        {{"KV tile", std::to_string(*bad.begin())}},
                        [only = *bad.begin()](const SeenTile& seen, Eigen::Index, Eigen::Index) {
                            return seen.id.kv_tile == only;
                        },
                        true});
}

/// Which part of the threads owns what is wrong: the row of the table that names the smallest.
std::string_view cause_of(const WrongThreads& threads) {
    if (threads.lanes.is_part()) return "one_lane_group";
    return threads.registers.is_part() ? "one_register" : "one_warp";
}

void add_threads(const Recording& recording, const SeenTiles& evidence, const WrongThreads& threads,
                 std::vector<Pattern>& patterns) {
    Pattern pattern{cause_of(threads), {}, owned_by(recording, evidence.stage, threads)};
    const auto add = [&](const char* name, const ThreadSet& set) {
        if (set.is_part()) pattern.parameters.push_back({name, numbers_of(set)});
    };
    add("warps", threads.warps);
    add("lanes", threads.lanes);
    add("registers", threads.registers);
    patterns.push_back(std::move(pattern));
}

FoundCause found(std::string_view name, const SeenTiles& evidence) {
    FoundCause result;
    result.name = name;
    result.stage = result.observed = evidence.stage;
    result.structural = true;
    result.elements = evidence.compared;
    if (evidence.compared > 0)
        result.explained_before = 1 - double(evidence.wrong_elements) / double(evidence.compared);
    return result;
}

/// Whose rows lack tiles, where others do not.
void add_where_skipped(const Problem& problem, Stage stage, const StageTally& tally,
                       std::vector<CauseParameter>& parameters) {
    const auto add = [&](const char* name, std::int64_t all, const auto& number_of) {
        std::set<std::int64_t> numbers;
        for (const BadRow& row : tally.bad_rows) numbers.insert(number_of(row));
        if (!numbers.empty() && std::ssize(numbers) < all)
            parameters.push_back({name, range_of(numbers).text});
    };
    add("batch", problem.batch, [](const BadRow& row) { return row.batch; });
    add("head", stage_heads(problem, stage), [](const BadRow& row) { return row.head; });
    if (stage_info(stage).row_axis == Axis::query)
        add("query block", problem.q_blocks(), [&](const BadRow& row) { return row.row / problem.block_m; });
}

}  // namespace

std::vector<FoundCause> found_places(const Recording& recording, const Report& report,
                                     const SeenTiles& evidence, const std::optional<WrongThreads>& threads) {
    std::vector<FoundCause> all;
    const StageTally& tally = report.stage(evidence.stage).tally;
    if (tally.conflicting > 0) all.push_back(racing(report, evidence));
    if (tally.conflicting > 0 && tally.outside == 0) return all;
    if (tally.tiles_missing > 0 && evidence.wrong_elements == 0) {
        all.push_back(found(skipped_name, evidence));
        all.back().parameters = {{"tiles", std::to_string(tally.tiles_missing)}};
        add_where_skipped(recording.problem(), evidence.stage, tally, all.back().parameters);
        return all;
    }
    // One or two elements are told by themselves.
    if (evidence.tiles.empty() || evidence.wrong_elements <= 2) return all;
    std::vector<Pattern> patterns;
    const Problem& problem = recording.problem();
    add_only(
        report, evidence, "one_batch", "batch", problem.batch, [](const BadRow& row) { return row.batch; },
        patterns);
    add_only(
        report, evidence, "one_head", "head", stage_heads(problem, evidence.stage),
        [](const BadRow& row) { return row.head; }, patterns);
    add_kv_tile(evidence, patterns);
    const bool warps_known = recording.threads()[evidence.stage].declared();
    // The threads that copy an operand do not compute it.
    const bool told_by_threads = threads && !threads->among_right_ones && !is_operand(evidence.stage);
    // Whole warps say more than their rows; rows and columns say more than lanes and registers.
    const bool whole_warps = told_by_threads && cause_of(*threads) == "one_warp";
    if (whole_warps) add_threads(recording, evidence, *threads, patterns);
    add_lines(evidence, true, warps_known, patterns);
    add_lines(evidence, false, warps_known, patterns);
    if (told_by_threads && !whole_warps) add_threads(recording, evidence, *threads, patterns);
    constexpr double enough = 0.9;
    const auto first = std::ssize(all);
    for (const Pattern& pattern : patterns) {
        const double share = agreement(evidence, pattern.holds, pattern.of_tiles);
        if (share < enough) continue;
        all.push_back(found(pattern.cause, evidence));
        all.back().explained_after = share;
        all.back().parameters = pattern.parameters;
        if (threads && !threads->among_right_ones) all.back().where = threads->says;
    }
    std::stable_sort(all.begin() + first, all.end(), [](const FoundCause& a, const FoundCause& b) {
        return a.explained_after > b.explained_after;
    });
    for (std::size_t i = 1; i < all.size(); ++i)
        all[i].rank = all[i].explained_after == all[i - 1].explained_after ? all[i - 1].rank : int(i) + 1;
    return all;
}

FoundCause racing(const Report& report, const SeenTiles& evidence) {
    FoundCause cause = found(racing_name, evidence);
    cause.parameters = {{"writes", std::to_string(report.stage(evidence.stage).tally.conflicting)}};
    return cause;
}

namespace {

/// What an element that diverges is, by itself.
std::string_view kind_of(const Element& element) {
    switch (element.finding) {
        case Finding::nan:
            return "one NaN";
        case Finding::infinite:
            return std::isinf(element.got) ? "one infinity" : "one number in place of an infinity";
        case Finding::unwritten:
            return "one element that no thread wrote";
        default:
            return "one wrong number";
    }
}

/// "NaN in rows 8-31 of the wrong tiles": where whole rows are such in every bad tile, and no other element
/// is.
std::string rows_that(const SeenTiles& evidence, const char* says, bool (*is)(float)) {
    std::vector<bool> any;
    std::vector<bool> all;
    for (const SeenTile* const tile : evidence.tiles) {
        const SeenTile& seen = *tile;
        if (!seen.is_bad()) continue;
        const auto rows = std::size_t(seen.got.rows());
        any.resize(std::max(any.size(), rows), false);
        all.resize(std::max(all.size(), rows), true);
        for (std::size_t row = 0; row < rows; ++row) {
            for (const float got : seen.got.row(Eigen::Index(row))) {
                any[row] = any[row] || is(got);
                all[row] = all[row] && is(got);
            }
        }
    }
    const auto places = places_of(any);
    if (!places || any != all) return "";
    if (places->count == std::ssize(any)) return fmt::format("{} in all rows of the wrong tiles", says);
    return fmt::format("{} in {} {} of the wrong tiles", says,
                       places->count == 1 && places->period == 0 ? "row" : "rows", to_string(*places));
}

}  // namespace

std::vector<std::string> places_told(const Report& report, const SeenTiles& evidence) {
    std::vector<std::string> told;
    const StageTally& tally = report.stage(evidence.stage).tally;
    if (tally.outside > std::ssize(tally.worst)) {
        for (const auto& line : {rows_that(evidence, "no thread wrote anything", is_unwritten),
                                 rows_that(evidence, "NaN", is_computed_nan)})
            if (!line.empty()) told.push_back(line);
        return told;
    }
    std::vector<Element> elements = tally.worst;
    std::ranges::sort(elements, comes_before);
    for (const Element& element : elements)
        told.push_back(fmt::format("{} at {}", kind_of(element),
                                   tensor_place_of(report.problem, evidence.stage, element)));
    return told;
}

PlaceTold where_of(const SeenTiles& evidence, const Report& report, bool rows_alone) {
    std::set<std::int64_t> batches;
    std::set<std::int64_t> heads;
    for (const BadRow& row : report.stage(evidence.stage).tally.bad_rows) {
        batches.insert(row.batch);
        heads.insert(row.head);
    }
    std::set<std::int64_t> bad_tiles;
    std::set<std::int64_t> tiles;
    std::set<std::int64_t> rows;
    std::int64_t length = 0;
    for (const SeenTile* const tile : evidence.tiles) {
        const SeenTile& seen = *tile;
        const TileId& id = seen.id;
        if (batches.contains(id.batch) && heads.contains(id.head)) tiles.insert(id.kv_tile);
        if (!seen.is_bad()) continue;
        bad_tiles.insert(seen.id.kv_tile);
        for (std::size_t i = 0; i < seen.bad_rows.size(); ++i)
            if (seen.bad_rows[i]) rows.insert(std::int64_t(i));
        length = std::max(length, std::ssize(seen.bad_rows));
    }
    const Problem& problem = report.problem;
    PlaceTold told;
    const auto add = [&](const char* name, const std::set<std::int64_t>& numbers) {
        const NumbersTold in = range_of(numbers);
        told.text += fmt::format("{}{} {}", told.text.empty() ? "" : ", ", name, in.text);
        // What is left out of the last of them leaves the place open.
        told.is_vague = !in.is_whole;
    };
    if (std::ssize(batches) < problem.batch && !batches.empty()) add("batch", batches);
    if (std::ssize(heads) < stage_heads(problem, evidence.stage) && !heads.empty()) add("head", heads);
    const bool per_tile = stage_info(evidence.stage).per_kv_tile;
    if (per_tile && !bad_tiles.empty() && bad_tiles.size() < tiles.size()) add("KV tile", bad_tiles);
    if (rows_alone && !rows.empty() && std::ssize(rows) < length) add("rows of the tile", rows);
    if (told.text.empty()) return {rows_alone ? "some rows" : "some tiles", true};
    return told;
}

}  // namespace tilescope
