#include "oracle/describe/coordinate.h"

namespace tilescope {

std::string_view coordinate_name(Coordinate coordinate) {
    constexpr std::array<std::string_view, coordinate_count> names = {
        "batch",     "head",       "kv_head",    "split",   "q_block",  "kv_tile",  "row",
        "col",       "d",          "lane",       "query",   "key",      "0",        "first_row",
        "first_col", "group",      "batch_size", "heads",   "heads_kv", "seqlen_q", "seqlen_kv",
        "head_dim",  "head_dim_v", "block_m",    "block_n", "q_blocks"};
    return names[std::size_t(coordinate)];
}

Place Place::in(const Problem& problem) {
    Place place;
    place[Coordinate::group] = problem.heads / problem.heads_kv;
    place[Coordinate::batch_size] = problem.batch;
    place[Coordinate::heads] = problem.heads;
    place[Coordinate::heads_kv] = problem.heads_kv;
    place[Coordinate::seqlen_q] = problem.seqlen_q;
    place[Coordinate::seqlen_kv] = problem.seqlen_kv;
    place[Coordinate::head_dim] = problem.head_dim;
    place[Coordinate::head_dim_v] = problem.head_dim_v;
    place[Coordinate::block_m] = problem.block_m;
    place[Coordinate::block_n] = problem.block_n;
    place[Coordinate::q_blocks] = problem.q_blocks();
    return place;
}

}  // namespace tilescope
