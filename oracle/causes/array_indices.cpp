#include "oracle/causes/array_indices.h"

#include "oracle/causes/element_places.h"

namespace tilescope {

IndexedArray indexed_array(Stage stage, const Problem& problem) {
    using enum Coordinate;
    const bool of_queries = stage_info(stage).row_axis == Axis::query;
    const bool has_cols = stage_info(stage).col_axis == Axis::feature;
    const TileShape shape = tile_shape(problem, stage);
    const Coordinate own_heads = of_queries ? heads : heads_kv;
    const Coordinate length = of_queries ? seqlen_q : seqlen_kv;
    const Coordinate cols = stage == Stage::v || stage == Stage::o ? head_dim_v : head_dim;
    IndexedArray array;
    array.place = Place::in(problem);
    array.right = {{batch, of_queries ? head : kv_head, of_queries ? query : key}, {own_heads, length}};
    array.ranges = {{batch, problem.batch},
                    {of_queries ? head : kv_head, array.place[own_heads]},
                    {of_queries ? query : key, array.place[length]}};
    array.extents = {own_heads, length};
    if (has_cols) {
        array.right.parts.emplace_back(d);
        array.right.extents.emplace_back(cols);
        array.ranges.push_back({d, shape.cols});
        array.extents.push_back(cols);
    }
    array.ranges.insert(array.ranges.end(),
                        {{row, shape.rows}, {q_block, problem.q_blocks()}, {first_row, array.place[length]}});
    if (stage_info(stage).per_kv_tile) array.ranges.push_back({kv_tile, problem.kv_tiles()});
    if (!of_queries) array.ranges.push_back({head, problem.heads});
    array.extents.insert(array.extents.end(), {heads, heads_kv, seqlen_q, seqlen_kv, head_dim, head_dim_v,
                                               block_m, block_n, batch_size});
    array.tile = of_queries ? q_block : kv_tile;
    array.block = of_queries ? block_m : block_n;
    array.size = problem.batch * array.place[own_heads] * array.place[length] * shape.cols;
    return array;
}

AddressInTile addresses_by(const Index& index, Stage stage, const SearchedTile& site) {
    struct Term {
        Expr part;
        std::int64_t distance;  ///< from one of its numbers to the next
    };
    const Coordinate along = axes_of_tile(stage).along;
    Place place = element_place(stage, site, 0, 0);
    // Most parts are the same in the whole tile, and the others in a row or in a column.
    std::vector<Term> of_row;
    std::vector<std::int64_t> of_col(std::size_t(tile_shape(site.call->problem, stage).cols));
    std::vector<std::int64_t> of_part(of_col.size());
    std::vector<Term> of_both;
    std::int64_t distance = 1;
    for (std::size_t i = index.parts.size(); i-- > 0;) {
        const Expr& part = index.parts[i];
        if (!part.takes(along)) {
            of_row.push_back({part, distance});
        } else if (part.is_mixed()) {
            of_both.push_back({part, distance});
        } else {
            part.along(along, place, of_part);
            for (std::size_t col = 0; col < of_col.size(); ++col) of_col[col] += of_part[col] * distance;
        }
        if (i > 0) distance *= index.extents[i - 1].at(place);
    }
    return [=, known_row = Eigen::Index{-1}, first = std::int64_t{0}](Eigen::Index row,
                                                                      Eigen::Index col) mutable {
        if (row != known_row || !of_both.empty()) move_in_tile(stage, row, col, place);
        if (row != known_row) {
            known_row = row;
            first = 0;
            for (const Term& term : of_row) first += term.part.at(place) * term.distance;
        }
        std::int64_t address = first + of_col[std::size_t(col)];
        for (const Term& term : of_both) address += term.part.at(place) * term.distance;
        return address;
    };
}

}  // namespace tilescope
