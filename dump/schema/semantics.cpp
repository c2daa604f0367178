#include "dump/schema/semantics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tilescope {

std::int64_t diagonal_of(const Problem& problem, std::int64_t row) {
    const bool top_left = problem.causal_alignment == CausalAlignment::top_left;
    return position_of(problem.shard.q_positions, row) + problem.diagonal_offset +
           (top_left ? 0 : problem.whole_seqlen_kv() - problem.whole_seqlen_q());
}

std::int64_t key_position(const Problem& problem, std::int64_t key) {
    return position_of(problem.shard.kv_positions, key);
}

KeyRange visible_keys(const Problem& problem, std::int64_t row) {
    const std::int64_t diagonal = diagonal_of(problem, row);
    KeyRange keys{0, problem.whole_seqlen_kv()};
    if (problem.mask == Mask::causal) keys.last = std::min(keys.last, diagonal + 1);
    const std::int64_t bound = problem.window_bounds == WindowBounds::inclusive ? 1 : 0;
    if (problem.window_right >= 0) keys.last = std::min(keys.last, diagonal + problem.window_right + bound);
    if (problem.window_left >= 0)
        keys.first = std::max(keys.first, diagonal - problem.window_left + 1 - bound);
    if (problem.shard.kv_positions.empty()) return keys;
    return {rows_before(problem.shard.kv_positions, keys.first),
            rows_before(problem.shard.kv_positions, keys.last)};
}

double product_scale(const Problem& problem, const Units& units) {
    return problem.sm_scale / (units.q_scale * units.k_scale);
}

std::array<double, 4> staged_scales(const Problem& problem) {
    const double scale = problem.sm_scale;
    const double in_base_two = scale * std::numbers::log2e;
    return {scale, in_base_two, std::sqrt(scale), std::sqrt(in_base_two)};
}

double masked_score(const Units& units) {
    if (!units.s_masked) return units.s_masked_value;
    return double(decode(units.s_cast, encode(units.s_cast, float(units.s_masked_value))));
}

bool masks_with_number(const Units& units) {
    return std::isfinite(masked_score(units));
}

bool tile_is_visible(const Problem& problem, std::int64_t q_block, std::int64_t kv_tile) {
    const std::int64_t first_key = kv_tile * problem.block_n;
    const std::int64_t last_key = std::min(first_key + problem.block_n, problem.seqlen_kv);
    const std::int64_t first_row = q_block * problem.block_m;
    const std::int64_t last_row = std::min(first_row + problem.block_m, problem.seqlen_q);
    for (std::int64_t row = first_row; row < last_row; ++row) {
        const KeyRange keys = visible_keys(problem, row);
        if (std::max(keys.first, first_key) < std::min(keys.last, last_key)) return true;
    }
    return false;
}

std::int64_t kv_tile_in_order(const Problem& problem, KvOrder order, std::int64_t taken) {
    return order == KvOrder::reverse ? problem.kv_tiles() - 1 - taken : taken;
}

}  // namespace tilescope
