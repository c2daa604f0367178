#pragma once

#include <array>
#include <string_view>

namespace tilescope::bench {

/// Causes that are right answers to a fault of the bundled kernels.
struct BundledFault {
    std::string_view fault;
    std::array<std::string_view, 4> causes;
};

/// Races have no cause in a single dump, and are left out.
inline constexpr BundledFault bundled_faults[] = {
    {"q_row_zeroed", {"rows_zeroed"}},
    {"bshd_as_bhsd", {"bshd_as_bhsd"}},
    {"block_left_out", {"tile_skipped"}},
    {"stale_k_tile", {"other_kv_tile"}},
    {"zero_scale", {"descale_missing", "non_finite_replaced", "one_head"}},
    {"head_modulo", {"kv_head_modulo"}},
    {"p_over_v", {"buffer_aliased"}},
    {"rows_not_divided", {"rows_not_loaded", "rows_zeroed", "never_written", "rows_uncovered"}},
    {"map_not_swizzled", {"columns_permuted"}},
    {"stage_of_tile_before", {"other_kv_tile"}},
    {"arrival_missing", {"other_kv_tile"}},
    {"products_not_awaited", {"other_kv_tile"}},
    {"v_next_tile", {"other_kv_tile"}},
    {"causal_top_left", {"causal_top_left", "diagonal_shifted"}},
    {"scale_twice", {"scale_twice", "score_constant"}},
    {"descale_k_missing", {"descale_missing"}},
    {"descale_q_twice", {"descale_twice"}},
    {"descale_of_query_head", {"descale_of_other_head"}},
    {"k_slice_missing", {"k_slice_missing", "head_dim_truncated"}},
    {"half_scores", {"half_scores"}},
    {"beta_is_one", {"accumulator_not_zeroed"}},
    {"fragment_per_thread", {"fragment_filled_linearly"}},
    {"swizzle_missing", {"columns_permuted"}},
    {"descriptor_not_swizzled", {"periodic_columns"}},
    {"parity_kept", {"scores_of_other_tile"}},
    {"wrong_ldm", {"wrong_leading_dimension"}},
    {"first_fragment_only", {"first_fragment_only"}},
    {"k_row_major", {"k_not_transposed"}},
    {"score_in_lane_0", {"one_lane_only"}},
    {"mask_tile_local", {"mask_tile_local"}},
    {"m_starts_at_zero", {"m_starts_at"}},
    {"max_own_lane", {"m_of_part_of_row"}},
    {"wrong_lanes", {"m_of_several_rows", "m_of_part_of_row"}},
    {"row_state_shared", {"m_of_several_rows"}},
    {"max_in_lane_0", {"p_of_partial_max"}},
    {"exp_clamped", {"exp_clamped"}},
    {"p_bf16", {"undeclared_cast"}},
    {"p_lane_stride", {"p_lane_stride", "never_written"}},
    {"p_tail_kept", {"masked_p_not_zero", "never_written"}},
    // Where a guard clamps the argument of the exponential, it is NaN no more, and clamped.
    {"inf_minus_inf", {"inf_minus_inf", "exp_clamped"}},
    {"log2e_missing", {"exp_base"}},
    {"p_not_scaled", {"p_scale_missing"}},
    {"p_not_saturated", {"p_not_saturated"}},
    {"tail_counted", {"tail_counted"}},
    {"l_not_rescaled", {"l_not_rescaled"}},
    {"acc_not_rescaled", {"acc_not_rescaled"}},
    {"nan_times_zero", {"nan_times_zero"}},
    {"half_accumulator", {"half_accumulator"}},
    {"v_not_transposed", {"v_not_transposed"}},
    {"double_normalised", {"double_normalised"}},
    {"not_normalised", {"not_normalised"}},
    {"epsilon_too_large", {"epsilon_in_denominator"}},
    {"columns_uncovered", {"columns_uncovered"}},
    {"rows_uncovered", {"rows_uncovered"}},
    {"consumers_swapped", {"output_stored_elsewhere"}},
    {"store_not_fenced", {"operand_stored_as_o"}},
    {"descale_v_missing", {"descale_v_missing"}},
    {"lse_base2", {"lse_in_other_base"}},
};

}  // namespace tilescope::bench
