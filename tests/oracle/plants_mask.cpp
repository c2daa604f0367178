// Which keys a row sees.

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

void need_top_left(Call& call) {
    need_causal(call);
    call.problem.causal_alignment = CausalAlignment::top_left;
}
void need_causal_alone(Call& call) {
    need_causal(call);
    call.problem.window_left = call.problem.window_right = -1;
}
void need_groups_and_causal(Call& call) {
    need_groups(call);
    need_causal(call);
}
void need_window(Call& call) {
    call.problem.window_left = 9;
    call.problem.window_right = 4;
    call.problem.window_bounds = WindowBounds::inclusive;
    call.arithmetic.dumps_unmasked_s = false;
}
/// Memory goes on where the entry's keys end.
void need_padded_keys(Call& call) {
    need_no_mask(call);
    const Problem& p = call.problem;
    call.inputs.side.seqlens_kv.assign(std::size_t(p.batch), p.seqlen_kv - 3);
}

const MistakeInfo mask_table[] = {
    {Mistake::mask_off_by_one,
     "mask_off_by_one",
     {"diagonal_shifted"},
     Stage::s,
     need_causal,
     {.visible = [](const Block& b, std::int64_t row,
                    std::int64_t key) { return b.is_visible(row + 1, key); }}},
    {Mistake::mask_one_less,
     "mask_one_less",
     {"diagonal_shifted"},
     Stage::s,
     need_causal,
     {.visible = [](const Block& b, std::int64_t row,
                    std::int64_t key) { return b.is_visible(row - 1, key); }}},
    {Mistake::causal_top_left,
     "causal_top_left",
     {"causal_top_left", "diagonal_shifted"},
     Stage::s,
     need_causal,
     {.call = [](Call& call) { call.problem.causal_alignment = CausalAlignment::top_left; }}},
    {Mistake::causal_bottom_right,
     "causal_bottom_right",
     {"causal_bottom_right", "diagonal_shifted"},
     Stage::s,
     need_top_left,
     {.call = [](Call& call) { call.problem.causal_alignment = CausalAlignment::bottom_right; }}},
    {Mistake::causal_ignored,
     "causal_ignored",
     {"causal_ignored"},
     Stage::s,
     need_causal,
     {.call = [](Call& call) { call.problem.mask = Mask::none; }}},
    {Mistake::mask_tile_local,
     "mask_tile_local",
     {"mask_tile_local"},
     Stage::s,
     need_causal_alone,
     {.visible = [](const Block& b, std::int64_t row,
                    std::int64_t key) { return key - b.first_key() <= row - b.first_row(); }}},
    {Mistake::mask_row_of_group,
     "mask_row_of_group",
     {"mask_row_of_group"},
     Stage::s,
     need_groups_and_causal,
     {.visible = [](const Block& b, std::int64_t row,
                    std::int64_t key) { return b.is_visible(row / (b.p.heads / b.p.heads_kv), key); }}},
    {Mistake::window_ignored,
     "window_ignored",
     {"window_ignored"},
     Stage::s,
     need_window,
     {.call = [](Call& call) { call.problem.window_left = call.problem.window_right = -1; }}},
    {Mistake::window_exclusive,
     "window_exclusive",
     {"window_shifted"},
     Stage::s,
     need_window,
     {.call = [](Call& call) { call.problem.window_bounds = WindowBounds::exclusive; }}},
    {Mistake::window_wider,
     "window_wider",
     {"window_shifted"},
     Stage::s,
     need_window,
     {.call = [](Call& call) { ++call.problem.window_left; }}},
    {Mistake::tail_of_zeros,
     "tail_of_zeros",
     {"tail_not_masked", "tail_counted", "m_includes_tail"},
     Stage::l,
     need_no_mask,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage != Stage::q && from.row >= b.p.seqlen_kv) from.value = 0.0f;
          },
      .tail = Tail::unmasked}},
    {Mistake::tail_stale,
     "tail_stale",
     {"tail_not_masked", "tail_counted", "m_includes_tail"},
     Stage::m,
     need_no_mask,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage != Stage::q && from.row >= b.p.seqlen_kv) from.row -= b.p.block_n;
          },
      .tail = Tail::unmasked}},
    {Mistake::tail_of_next_rows,
     "tail_of_next_rows",
     {"tail_not_masked", "tail_counted", "m_includes_tail"},
     Stage::l,
     need_padded_keys,
     {.tail = Tail::unmasked}},
    {Mistake::tail_of_nan,
     "tail_of_nan",
     {"tail_counted", "m_includes_tail"},
     Stage::l,
     need_no_mask,
     {.load =
          [](const Block& b, Stage stage, Source& from) {
              if (stage == Stage::k && from.row >= b.p.seqlen_kv) from.value = nan;
          },
      .tail = Tail::unmasked}},
};

}  // namespace

std::span<const MistakeInfo> mask_mistakes() {
    return mask_table;
}

}  // namespace tilescope::test
