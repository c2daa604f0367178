#include "oracle/causes/where.h"

#include <array>
#include <string_view>

#include "oracle/identify/place_rule.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

/// So many places tell a rule.
constexpr std::int64_t most_places = 60'000;

/// What rules are made of; 0 where the stage does not have it. Rows and columns are those of the tile.
namespace coordinate {
enum Name : std::size_t { batch, head, q_block, kv_tile, row, col, query, key, distance, rose, count };
}  // namespace coordinate

using Names = std::array<std::string_view, coordinate::count>;

Names names_of(Stage stage) {
    Names names = {"batch", "head",  "q_block", "kv_tile",     "row",
                   "d",     "query", "key",     "key - query", "(m > m_old)"};
    if (stage_info(stage).col_axis == Axis::key) names[coordinate::col] = "col";
    return names;
}

LabelledPlace place_of(const SearchedTile& site, Stage stage, Eigen::Index i, Eigen::Index j) {
    LabelledPlace place;
    const auto set = [&](coordinate::Name name, std::int64_t value) { place.at[name] = std::int32_t(value); };
    set(coordinate::batch, site.id.batch);
    set(coordinate::head, site.id.head);
    set(coordinate::row, i);
    set(coordinate::col, j);
    const StageInfo& info = stage_info(stage);
    const bool of_keys = info.row_axis == Axis::key;
    if (info.per_q_block) set(coordinate::q_block, site.id.q_block);
    if (info.per_kv_tile) set(coordinate::kv_tile, site.id.kv_tile);
    if (of_keys) {
        set(coordinate::key, site.first_key + i);
    } else {
        set(coordinate::query, site.first_row + i);
    }
    if (info.col_axis == Axis::key) {
        set(coordinate::key, site.first_key + j);
        set(coordinate::distance, site.first_key + j - site.first_row - i);
    }
    const bool has_m = stage == Stage::p || stage == Stage::l || stage == Stage::acc;
    if (has_m && i < site.m.value.rows() && i < site.before.m.value.rows())
        set(coordinate::rose, site.m.value(i, 0) > site.before.m.value(i, 0));
    return place;
}

std::vector<LabelledPlace> labelled_places(const Evidence& evidence, const Change& change) {
    const std::int64_t step = evidence.compared / most_places + 1;
    std::vector<LabelledPlace> places;
    std::int64_t next = 0;
    visit_sides(evidence, change, [&](const Observation& seen, Eigen::Index i, Side side) {
        // What is wrong is less than what is right, as a rule: none of it is left out.
        if (side != Side::changed && (side != Side::healthy || next++ % step != 0)) return;
        const Eigen::Index cols = seen.got.cols();
        LabelledPlace place = place_of(seen.site, evidence.observed, i / cols, i % cols);
        place.inside = side == Side::changed;
        places.push_back(place);
    });
    return places;
}

}  // namespace

std::optional<RuledChange> with_rule(const Evidence& evidence, const Change& change) {
    if (!evidence.direct()) return std::nullopt;
    const std::vector<LabelledPlace> places = labelled_places(evidence, change);
    const std::optional<PlaceRule> rule =
        find_place_rule(places, coordinate::count, evidence.wrong_elements / 500);
    if (!rule) return std::nullopt;
    RuledChange ruled{change, rule->text(names_of(evidence.observed))};
    ruled.change.where = [rule = *rule, stage = evidence.observed](const SearchedTile& site, Eigen::Index i,
                                                                   Eigen::Index j) {
        return rule.holds(place_of(site, stage, i, j).at);
    };
    return ruled;
}

}  // namespace tilescope
