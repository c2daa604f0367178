#pragma once

#include <array>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge/bytes.h"

namespace tilescope {

// The fields of what a recording says of itself, as oracle/judge/tally_bytes.h has those of tallies.

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, NamedTile>
void each_field(Io& io, Of& tile) {
    auto& [name, rows, cols, row_size, col_size, per_q_block, per_kv_tile] = tile;
    io(name, rows, cols, row_size, col_size, per_q_block, per_kv_tile);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Shard>
void each_field(Io& io, Of& shard) {
    auto& [ranks, rank, step, kind, seqlen_q, seqlen_kv, q_positions, kv_positions] = shard;
    io(ranks, rank, step, kind, seqlen_q, seqlen_kv, q_positions, kv_positions);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Problem>
void each_field(Io& io, Of& problem) {
    auto& [direction, batch, heads, heads_kv, head_grouping, seqlen_q, seqlen_kv, head_dim, head_dim_v,
           block_m, block_n, sm_scale, mask, causal_alignment, diagonal_offset, window_left, window_right,
           window_bounds, logits_soft_cap, alibi, sink, kv_tiles_per_split, split_starts, l_lanes,
           l_lane_columns, dtype_q, dtype_k, dtype_v, dtype_p, dtype_acc, dtype_o, dtype_partial_o,
           dtype_dout, dtype_ds, dtype_dq, dtype_dk, dtype_dv, dkv_per_head, named_tiles, shard] = problem;
    io(direction, batch, heads, heads_kv, head_grouping, seqlen_q, seqlen_kv, head_dim, head_dim_v, block_m,
       block_n, sm_scale, mask, causal_alignment, diagonal_offset, window_left, window_right, window_bounds,
       logits_soft_cap, alibi, sink, kv_tiles_per_split, split_starts, l_lanes, l_lane_columns, dtype_q,
       dtype_k, dtype_v, dtype_p, dtype_acc, dtype_o, dtype_partial_o, dtype_dout, dtype_ds, dtype_dq,
       dtype_dk, dtype_dv, dkv_per_head, named_tiles, shard);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Provenance>
void each_field(Io& io, Of& provenance) {
    auto& [producer, kernel, device, compute_capability, cuda_version, launch, command, time, run, poison] =
        provenance;
    io(producer, kernel, device, compute_capability, cuda_version, launch, command, time, run, poison);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, SourceLine>
void each_field(Io& io, Of& source) {
    auto& [file, line] = source;
    io(file, line);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, StageCapture>
void each_field(Io& io, Of& stage) {
    auto& [conflicts, dropped, elements_dropped, elements_out_of_range, first_out_of_range, hooks] = stage;
    io(conflicts, dropped, elements_dropped, elements_out_of_range, first_out_of_range, hooks);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Ranges>
void each_field(Io& io, Of& ranges) {
    io(ranges.ranges);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Selection>
void each_field(Io& io, Of& selection) {
    auto& [batch, head, q_block, kv_tile, blocks, stages] = selection;
    io(batch, head, q_block, kv_tile, blocks, stages);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, CaptureSummary>
void each_field(Io& io, Of& capture) {
    auto& [selection, ended, stages] = capture;
    io(selection, ended, stages);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Fragment>
void each_field(Io& io, Of& fragment) {
    auto& [name, rows, cols, owners] = fragment;
    io(name, rows, cols, owners);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, ThreadLayout>
void each_field(Io& io, Of& layout) {
    auto& [fragment, lanes, lane_columns, group_rows, group_cols, groups, split_groups] = layout;
    io(fragment, lanes, lane_columns, group_rows, group_cols, groups, split_groups);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, ThreadLayouts>
void each_field(Io& io, Of& layouts) {
    auto& [stages, fragments] = layouts;
    io(stages, fragments);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, Descale>
void each_field(Io& io, Of& descale) {
    auto& [heads, blocks, rows, values, channels] = descale;
    io(heads, blocks, rows, values, channels);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, SideInputs>
void each_field(Io& io, Of& side) {
    auto& [seqlens_q, seqlens_kv, alibi_slopes, sink, descale_q, descale_k, descale_v] = side;
    io(seqlens_q, seqlens_kv, alibi_slopes, sink, descale_q, descale_k, descale_v);
}

template <class Io, class Of>
requires std::is_same_v<std::remove_const_t<Of>, ReferenceInfo>
void each_field(Io& io, Of& reference) {
    auto& [name, has_o, has_lse, dtype_o, lse_log_base] = reference;
    io(name, has_o, has_lse, dtype_o, lse_log_base);
}

}  // namespace tilescope
