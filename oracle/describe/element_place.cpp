#include "oracle/describe/element_place.h"

#include <array>

namespace tilescope {

std::string_view place_name(ElementPlace place, Stage stage) {
    constexpr std::array<std::string_view, element_places> names = {
        "batch", "head", "q_block",     "kv_tile",     "row",       "",
        "query", "key",  "key - query", "(m > m_old)", "flat_index"};
    if (place != ElementPlace::col) return names[std::size_t(place)];
    return coordinate_name(axes_of_tile(stage).along);
}

TileAxes axes_of_tile(Stage stage) {
    const Axis axis = stage_info(stage).col_axis;
    return {Coordinate::row, axis == Axis::unit      ? Coordinate::lane
                             : axis == Axis::feature ? Coordinate::d
                                                     : Coordinate::col};
}

std::int64_t end_of(ElementPlace place, const Problem& problem, Stage stage) {
    switch (place) {
        case ElementPlace::batch:
            return problem.batch;
        case ElementPlace::head:
            return stage_heads(problem, stage);
        case ElementPlace::q_block:
            return problem.q_blocks();
        case ElementPlace::kv_tile:
            return problem.kv_tiles();
        case ElementPlace::query:
            return problem.seqlen_q;
        case ElementPlace::key:
            return problem.seqlen_kv;
        default:
            return 0;
    }
}

std::string_view end_name(ElementPlace place) {
    constexpr std::array<std::string_view, element_places> names = {
        "batch_size", "heads", "q_blocks", "kv_tiles", "", "", "seqlen_q", "seqlen_kv", "", "", ""};
    return names[std::size_t(place)];
}

std::span<const ElementPlace> places_of_elements(Stage stage) {
    using enum ElementPlace;
    static constexpr std::array of_rows = {row, query, kv_tile, q_block, head, batch};
    static constexpr std::array of_scores = {row, col, query, key, kv_tile, q_block, head, batch};
    static constexpr std::array of_products = {row, col, query, kv_tile, q_block, head, batch};
    static constexpr std::array of_keys = {row, col, key, kv_tile, head, batch};
    if (stage == Stage::dk || stage == Stage::dv) return of_keys;
    if (stage_info(stage).col_axis == Axis::key) return of_scores;
    if (stage == Stage::acc || stage == Stage::o || stage == Stage::dq) return of_products;
    return of_rows;
}

}  // namespace tilescope
