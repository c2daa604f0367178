#include "viewer/state/bad_places.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <tuple>

#include "viewer/state/view_state.h"

namespace tilescope::viewer {

namespace {

bool passes(const TileFinding& tile, BadFilter filter) {
    switch (filter) {
        case BadFilter::nan:
            return tile.nan > 0;
        case BadFilter::infinite:
            return tile.infinite > 0;
        case BadFilter::unwritten:
            return tile.unwritten > 0 || tile.state == TileFinding::State::missing;
        case BadFilter::conflicting:
            return tile.conflicting > 0;
        default:
            return true;
    }
}

using Band = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// The bands of rows (batch, head, number of the tile's rows) in which a bad tile passes.
std::map<Band, bool> bands_that_pass(const Document& document, const BadList& list) {
    const bool keys = row_axis_of(document.problem(), list.stage) == ViewAxis::key;
    std::map<Band, bool> bands;
    for (const TileId& tile : document.map_of(list.against).bad_tiles(list.stage)) {
        if (passes(document.map_of(list.against).at(list.stage, tile), list.filter))
            bands[{tile.batch, tile.head, keys ? tile.kv_tile : tile.q_block}] = true;
    }
    return bands;
}

std::vector<BadPlace> bad_rows(const Document& document, const BadList& list) {
    std::vector<BadPlace> places;
    if (document.report == nullptr) return places;
    const Problem& problem = document.problem();
    const bool keys = row_axis_of(document.problem(), list.stage) == ViewAxis::key;
    const std::int64_t rows_of_tile = keys ? problem.block_n : problem.block_m;
    const std::map<Band, bool> bands =
        list.filter == BadFilter::any ? std::map<Band, bool>() : bands_that_pass(document, list);
    const bool end_to_end = list.against == Reference::end_to_end && document.end_to_end != nullptr;
    const std::vector<BadRow>& rows =
        end_to_end ? document.end_to_end->bad_rows[static_cast<std::size_t>(list.stage)]
                   : document.report->stage(list.stage).tally.bad_rows;
    for (const BadRow& row : rows) {
        if (list.filter != BadFilter::any && !bands.contains({row.batch, row.head, row.row / rows_of_tile}))
            continue;
        places.push_back({.batch = row.batch,
                          .head = row.head,
                          .row = row.row,
                          .last_row = row.row,
                          .q_block = keys ? 0 : row.row / rows_of_tile,
                          .elements = row.elements});
    }
    return places;
}

std::vector<BadPlace> bad_tiles(const Document& document, const BadList& list) {
    std::vector<BadPlace> places;
    const Problem& problem = document.problem();
    const bool keys = row_axis_of(document.problem(), list.stage) == ViewAxis::key;
    for (const TileId& tile : document.map_of(list.against).bad_tiles(list.stage)) {
        const TileFinding finding = document.map_of(list.against).at(list.stage, tile);
        if (!passes(finding, list.filter)) continue;
        const bool missing = finding.state == TileFinding::State::missing;
        places.push_back({.batch = tile.batch,
                          .head = tile.head,
                          .row = keys ? tile.kv_tile * problem.block_n : tile.q_block * problem.block_m,
                          .kv_tile = tile.kv_tile,
                          .q_block = tile.q_block,
                          .elements = finding.outside,
                          .worst = missing ? std::numeric_limits<float>::max() : finding.worst});
    }
    std::ranges::stable_sort(places, {}, [](const BadPlace& place) {
        return std::tuple(place.batch, place.head, place.row, place.kv_tile);
    });
    return places;
}

struct FilterName {
    BadFilter filter;
    std::string_view name;
};
constexpr std::array<FilterName, bad_filter_count> filter_names = {{
    {BadFilter::any, "every kind"},
    {BadFilter::nan, "NaN"},
    {BadFilter::infinite, "infinite"},
    {BadFilter::unwritten, "unwritten"},
    {BadFilter::conflicting, "conflicting"},
}};

double key_of(const BadPlace& place, BadColumn column) {
    switch (column) {
        case BadColumn::batch:
            return double(place.batch);
        case BadColumn::head:
            return double(place.head);
        case BadColumn::row:
            return double(place.row);
        case BadColumn::kv_tile:
            return double(place.kv_tile);
        case BadColumn::q_block:
            return double(place.q_block);
        case BadColumn::elements:
            return double(place.elements);
        default:
            return double(place.worst);
    }
}

}  // namespace

std::string_view to_string(BadFilter filter) {
    return filter_names[std::size_t(filter)].name;
}

Listed listed_of(const Problem& problem, const BadList& list) {
    const ViewAxis rows = row_axis_of(problem, list.stage);
    return rows == ViewAxis::query || rows == ViewAxis::key ? list.listed : Listed::tiles;
}

std::vector<BadPlace> find_bad_places(const Document& document, const BadList& list) {
    return listed_of(document.problem(), list) == Listed::tiles ? bad_tiles(document, list)
                                                                : bad_rows(document, list);
}

void sort_bad_places(std::vector<BadPlace>& places, BadColumn column, bool descending) {
    const auto natural = [](const BadPlace& place) {
        return std::tuple(place.batch, place.head, place.row, place.kv_tile, place.q_block);
    };
    std::ranges::sort(places, [&](const BadPlace& a, const BadPlace& b) {
        const double first = key_of(descending ? b : a, column);
        const double second = key_of(descending ? a : b, column);
        return first != second ? first < second : natural(a) < natural(b);
    });
}

}  // namespace tilescope::viewer
