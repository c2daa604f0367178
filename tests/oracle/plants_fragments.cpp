// What goes wrong in the registers of a matrix product. The layouts are written out from the PTX ISA's
// "Matrix Fragments for mma.m16n8k16".

#include <algorithm>

#include "tests/oracle/plants.h"

namespace tilescope::test {

namespace {

constexpr int warp = 32;

/// The left operand, 16 x 16: elements a0 to a7 of a lane.
Tile p_of_consecutive_elements(const Tile& p) {
    Tile read = p;
    for (std::int64_t corner_row = 0; corner_row < p.rows; corner_row += 16) {
        for (std::int64_t corner_col = 0; corner_col < p.cols; corner_col += 16) {
            for (int lane = 0; lane < warp; ++lane) {
                const int group = lane >> 2;
                const int thread = lane & 3;
                const int rows[] = {group, group, group + 8, group + 8, group, group, group + 8, group + 8};
                const int cols[] = {thread * 2,     thread * 2 + 1, thread * 2,     thread * 2 + 1,
                                    thread * 2 + 8, thread * 2 + 9, thread * 2 + 8, thread * 2 + 9};
                for (int element = 0; element < 8; ++element) {
                    const std::int64_t row = corner_row + rows[element];
                    const std::int64_t col = corner_col + cols[element];
                    if (row >= p.rows || col >= p.cols) continue;
                    const int place = lane * 8 + element;
                    const std::int64_t from_row = corner_row + place / 16;
                    const std::int64_t from_col = corner_col + place % 16;
                    const bool exists = from_row < p.rows && from_col < p.cols;
                    read.at(row, col) = exists ? p.at(from_row, from_col) : 0;
                }
            }
        }
    }
    return read;
}

/// The right operand, 8 keys x 16 features: elements b0 to b3 of a lane.
Tile k_of_consecutive_elements(const Tile& k) {
    Tile read = k;
    for (std::int64_t first_key = 0; first_key < k.rows; first_key += 8) {
        for (std::int64_t first_feature = 0; first_feature < k.cols; first_feature += 16) {
            for (int lane = 0; lane < warp; ++lane) {
                const int thread = lane & 3;
                const int features[] = {thread * 2, thread * 2 + 1, thread * 2 + 8, thread * 2 + 9};
                for (int element = 0; element < 4; ++element) {
                    const std::int64_t key = first_key + (lane >> 2);
                    const std::int64_t feature = first_feature + features[element];
                    if (key >= k.rows || feature >= k.cols) continue;
                    const int place = lane * 4 + element;
                    const std::int64_t from_key = first_key + place / 16;
                    const std::int64_t from_feature = first_feature + place % 16;
                    const bool exists = from_key < k.rows && from_feature < k.cols;
                    read.at(key, feature) = exists ? k.at(from_key, from_feature) : 0;
                }
            }
        }
    }
    return read;
}

/// K with that of the tiles before it in the same split added, which leaves the sum of their products.
Tile with_keys_before(const Block& b, Tile k) {
    const bool reversed = b.a.kv_order == KvOrder::reverse;
    const Problem& padded = b.run.recording.problem();
    const std::int64_t tiles = (b.p.seqlen_kv + b.p.block_n - 1) / b.p.block_n;
    const std::int64_t per_split = b.p.kv_tiles_per_split > 0 ? b.p.kv_tiles_per_split : tiles;
    const std::int64_t split = b.id.kv_tile / per_split;
    for (std::int64_t tile = split * per_split; tile < std::min(tiles, (split + 1) * per_split); ++tile) {
        if (reversed ? tile <= b.id.kv_tile : tile >= b.id.kv_tile) continue;
        for (std::int64_t i = 0; i < k.rows && tile * b.p.block_n + i < b.p.seqlen_kv; ++i) {
            const std::int64_t row =
                (b.id.batch * b.p.heads_kv + b.head_kv()) * padded.seqlen_kv + tile * b.p.block_n + i;
            for (std::int64_t d = 0; d < k.cols; ++d) k.at(i, d) += b.in.k[std::size_t(row * k.cols + d)];
        }
    }
    return k;
}

/// K as it is in memory, and every tile computed.
void need_plain_k(Call& call) {
    call.problem.mask = Mask::none;
    call.problem.window_left = call.problem.window_right = -1;
    call.problem.dtype_q = call.problem.dtype_k = call.problem.dtype_v = Dtype::f16;
    call.arithmetic.k = {};
}
void need_wide_rows(Call& call) {
    call.problem.head_dim = 32;
    call.problem.sm_scale = 0.1767766922712326;
}

const MistakeInfo fragment_table[] = {
    {Mistake::k_fragment_linear,
     "k_fragment_linear",
     {"fragment_filled_linearly"},
     Stage::s,
     need_wide_rows,
     {.k_operand = [](const Block&, const Tile& k) { return k_of_consecutive_elements(k); }}},
    {Mistake::p_fragment_linear,
     "p_fragment_linear",
     {"fragment_filled_linearly"},
     Stage::acc,
     need_wide_tiles,
     {.p_operand = [](const Block&,
                      const Probabilities& p) { return p_of_consecutive_elements(p.operand); }}},
    {Mistake::s_accumulator_not_zeroed,
     "s_accumulator_not_zeroed",
     {"accumulator_not_zeroed"},
     Stage::s,
     need_plain_k,
     {.k_operand = [](const Block& b, const Tile& k) { return with_keys_before(b, k); }}},
};

}  // namespace

std::span<const MistakeInfo> fragment_mistakes() {
    return fragment_table;
}

}  // namespace tilescope::test
