// Elements that hold what no formula gives, in a pattern: what memory held, or nothing.

#include <algorithm>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

/// `value` times a number between 1.25 and 1.75, of the element. An infinity stays.
float garbage(const Block& b, const Spot& spot, float value) {
    const auto place = std::uint32_t(((b.id.kv_tile * 64 + b.id.q_block) * 512 + spot.row) * 512 + spot.col);
    const std::uint32_t hash = (place + 0x9e3779b9u) * 0x85ebca6bu;
    return value * (1.25f + 0.5f * float(hash >> 8) * 0x1p-24f);
}

void need_many_heads(Call& call) {
    call.problem.heads = std::max<std::int64_t>(call.problem.heads, 2 * call.problem.heads_kv);
}

const MistakeInfo pattern_table[] = {
    {Mistake::s_stripes_unwritten,
     "s_stripes_unwritten",
     {"never_written"},
     Stage::s,
     need_nothing,
     {.dumped = [](const Block&, const Spot& spot,
                   float value) { return spot.stage == Stage::s && spot.col % 4 == 3 ? unwritten : value; }}},
    {Mistake::p_rows_unwritten,
     "p_rows_unwritten",
     {"never_written"},
     Stage::p,
     need_nothing,
     {.dumped = [](const Block&, const Spot& spot,
                   float value) { return spot.stage == Stage::p && spot.row >= 14 ? unwritten : value; }}},
    {Mistake::s_tile_edge_wrong,
     "s_tile_edge_wrong",
     {"tile_edge"},
     Stage::s,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              const bool edge = spot.stage == Stage::s && spot.col == b.p.block_n - 1;
              return edge ? garbage(b, spot, value) : value;
          }}},
    {Mistake::acc_columns_periodic,
     "acc_columns_periodic",
     {"periodic_columns"},
     Stage::acc,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::acc && spot.col % 8 == 5 ? garbage(b, spot, value) : value;
          }}},
    {Mistake::s_rows_periodic,
     "s_rows_periodic",
     {"periodic_rows"},
     Stage::s,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::s && spot.row % 8 == 3 ? garbage(b, spot, value) : value;
          }}},
    {Mistake::s_of_one_warp_wrong,
     "s_of_one_warp_wrong",
     {"one_warp"},
     Stage::s,
     need_wide_tiles,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::s && spot.row >= 16 ? garbage(b, spot, value) : value;
          }}},
    {Mistake::p_of_one_head_wrong,
     "p_of_one_head_wrong",
     {"one_head"},
     Stage::p,
     need_many_heads,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::p && b.id.head == 1 ? garbage(b, spot, value) : value;
          }}},
    {Mistake::s_of_one_batch_wrong,
     "s_of_one_batch_wrong",
     {"one_batch"},
     Stage::s,
     need_batches,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::s && b.id.batch == 1 ? garbage(b, spot, value) : value;
          }}},
    {Mistake::acc_of_one_tile_wrong,
     "acc_of_one_tile_wrong",
     {"one_kv_tile"},
     Stage::acc,
     need_nothing,
     {.spoilt =
          [](const Block& b, const Spot& spot, float value) {
              return spot.stage == Stage::acc && b.id.kv_tile == 1 ? garbage(b, spot, value) : value;
          }}},
};

}  // namespace

std::span<const MistakeInfo> pattern_mistakes() {
    return pattern_table;
}

}  // namespace tilescope::test
