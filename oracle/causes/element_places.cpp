#include "oracle/causes/element_places.h"

namespace tilescope {

namespace {

/// The element's number along an axis of its stage that counts from `first`; 0 where neither axis does.
std::int64_t along(Axis axis, const StageInfo& info, std::int64_t first, Eigen::Index row, Eigen::Index col) {
    if (info.row_axis == axis) return first + row;
    return info.col_axis == axis ? first + col : 0;
}

bool has_risen(const SearchedTile& site, Stage stage, Eigen::Index row) {
    const bool after_m = stage == Stage::p || stage == Stage::l || stage == Stage::acc;
    if (!after_m || row >= site.m.value.rows() || row >= site.before.m.value.rows()) return false;
    return site.m.value(row, 0) > site.before.m.value(row, 0);
}

}  // namespace

std::int64_t place_of(ElementPlace place, const SearchedTile& site, Stage stage, Eigen::Index row,
                      Eigen::Index col) {
    const StageInfo& info = stage_info(stage);
    const auto query = [&] { return along(Axis::query, info, site.first_row, row, col); };
    const auto key = [&] { return along(Axis::key, info, site.first_key, row, col); };
    switch (place) {
        case ElementPlace::batch:
            return site.id.batch;
        case ElementPlace::head:
            return site.id.head;
        case ElementPlace::q_block:
            return info.per_q_block ? site.id.q_block : 0;
        case ElementPlace::kv_tile:
            return info.per_kv_tile ? site.id.kv_tile : 0;
        case ElementPlace::row:
            return row;
        case ElementPlace::col:
            return col;
        case ElementPlace::query:
            return query();
        case ElementPlace::key:
            return key();
        case ElementPlace::distance:
            return info.row_axis == Axis::query && info.col_axis == Axis::key ? key() - query() : 0;
        case ElementPlace::rose:
            return has_risen(site, stage, row);
        case ElementPlace::flat: {
            const std::int64_t cols = tile_shape(site.call->problem, stage).cols;
            return cols > 1 ? row * cols + col : 0;
        }
    }
    return 0;
}

Place element_place(Stage stage, const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
    const StageInfo& info = stage_info(stage);
    const Problem& problem = site.call->problem;
    Place place = Place::in(site.world->recording().problem());
    place[Coordinate::batch] = site.id.batch;
    place[Coordinate::head] = site.id.head;
    place[Coordinate::kv_head] = problem.head_kv(site.id.head);
    place[Coordinate::q_block] = site.id.q_block;
    place[Coordinate::kv_tile] = site.id.kv_tile;
    place[Coordinate::first_row] = info.row_axis == Axis::query ? site.first_row : site.first_key;
    place[Coordinate::first_col] = info.col_axis == Axis::key ? site.first_key : 0;
    move_in_tile(stage, row, col, place);
    return place;
}

void move_in_tile(Stage stage, Eigen::Index row, Eigen::Index col, Place& place) {
    const StageInfo& info = stage_info(stage);
    place[Coordinate::row] = row;
    place[axes_of_tile(stage).along] = col;
    place[info.row_axis == Axis::query ? Coordinate::query : Coordinate::key] =
        place[Coordinate::first_row] + row;
    if (info.col_axis == Axis::key) place[Coordinate::key] = place[Coordinate::first_col] + col;
}

}  // namespace tilescope
