#include "oracle/causes/element_places.h"

#include <array>

namespace tilescope {

std::string_view place_name(ElementPlace place) {
    constexpr std::array<std::string_view, 8> names = {
        "row of the tile", "column", "query row", "key", "KV tile", "query block", "head", "batch"};
    return names[std::size_t(place)];
}

std::int64_t place_of(ElementPlace place, const SearchedTile& site, Eigen::Index row, Eigen::Index col) {
    switch (place) {
        case ElementPlace::row:
            return row;
        case ElementPlace::col:
            return col;
        case ElementPlace::query:
            return site.first_row + row;
        case ElementPlace::key:
            return site.first_key + (site.parts ? row : col);
        case ElementPlace::kv_tile:
            return site.id.kv_tile;
        case ElementPlace::q_block:
            return site.id.q_block;
        case ElementPlace::head:
            return site.id.head;
        default:
            return site.id.batch;
    }
}

std::span<const ElementPlace> places_of_elements(Stage stage) {
    using enum ElementPlace;
    static constexpr std::array of_rows = {row, query, kv_tile, q_block, head, batch};
    static constexpr std::array of_scores = {row, col, query, key, kv_tile, q_block, head, batch};
    static constexpr std::array of_products = {row, col, query, kv_tile, q_block, head, batch};
    static constexpr std::array of_keys = {row, col, key, kv_tile, head, batch};
    if (is_of_all_queries(stage)) return of_keys;
    if (stage_info(stage).col_axis == Axis::key) return of_scores;
    if (stage == Stage::acc || stage == Stage::o || stage == Stage::dq) return of_products;
    return of_rows;
}

}  // namespace tilescope
