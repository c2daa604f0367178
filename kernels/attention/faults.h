#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "dump/hook/stage.h"

namespace tilescope {

/// A mistake that a kernel can be told to make; none is the healthy kernel.
enum class Fault : std::uint8_t {
    none,
    q_row_zeroed,
    bshd_as_bhsd,
    wait_missing,
    block_left_out,
    stale_k_tile,
    zero_scale,
    head_modulo,
    qk_barrier_missing,
    rows_not_divided,
    map_not_swizzled,
    stage_of_tile_before,
    arrival_missing,
    products_not_awaited,
    v_next_tile,
    p_over_v,
    load_before_barrier,
    causal_top_left,
    scale_twice,
    descale_k_missing,
    descale_q_twice,
    descale_of_query_head,
    k_slice_missing,
    half_scores,
    wrong_ldm,
    beta_is_one,
    first_fragment_only,
    fragment_per_thread,
    k_row_major,
    score_in_lane_0,
    swizzle_missing,
    descriptor_not_swizzled,
    parity_kept,
    mask_tile_local,
    m_starts_at_zero,
    max_own_lane,
    wrong_lanes,
    row_state_shared,
    exp_clamped,
    p_bf16,
    p_lane_stride,
    p_tail_kept,
    max_in_lane_0,
    inf_minus_inf,
    log2e_missing,
    p_not_scaled,
    p_not_saturated,
    tail_counted,
    l_not_rescaled,
    acc_not_rescaled,
    nan_times_zero,
    half_accumulator,
    softmax_barrier_missing,
    v_not_transposed,
    v_overwritten,
    double_normalised,
    not_normalised,
    epsilon_too_large,
    columns_uncovered,
    rows_uncovered,
    consumers_swapped,
    store_not_fenced,
    descale_v_missing,
    lse_base2,
};

/// Kernels that can be told to make a fault, a bit for each; fast has faults of mma.sync and of wgmma.
enum class FaultyKernel : std::uint32_t {
    none = 0,
    scalar = 1,
    wmma = 2,
    fast = 4,
    stable = 8,
    cublas = 16,
    fp8 = 32,
    fast_wgmma = 64
};

constexpr FaultyKernel operator|(FaultyKernel a, FaultyKernel b) {
    return FaultyKernel(std::uint32_t(a) | std::uint32_t(b));
}

struct FaultInfo {
    Fault fault;
    std::string_view name;
    Stage stage;              ///< the first stage that is wrong when each is recomputed from those before it
    std::string_view family;  ///< of attention kernel faults
    FaultyKernel kernels;
    std::string_view description;
    std::string_view shown_by;  ///< options of tile-run under which the fault changes the numbers
    bool gpu_only = false;      ///< a race, which the CPU engine does not play
};

namespace fault_table {

using enum FaultyKernel;

/// Every fault, by stage in order of computation.
inline constexpr FaultInfo all_faults[] = {
    {Fault::q_row_zeroed, "q_row_zeroed", Stage::q, "operand load", scalar | wmma | fast | stable | fp8,
     "the zero padding of the Q tile starts one row early and clears the last valid row",
     "--shape 1,2,80,160,64"},
    {Fault::bshd_as_bhsd, "bshd_as_bhsd", Stage::q, "layout", scalar | wmma | fast | stable,
     "Q is read as [batch][seqlen][heads][head_dim]", "--shape 1,2,64,128,64"},
    {Fault::wait_missing, "wait_missing", Stage::q, "synchronisation", fast,
     "Q is copied last, and cp.async.wait_group leaves all groups in flight: Q is read before it arrives",
     "--shape 16,16,64,128,64"},
    {Fault::block_left_out, "block_left_out", Stage::q, "coverage", fast_wgmma,
     "the scheduler takes its last block of queries for one behind the end", "--shape 1,2,256,256,64"},
    {Fault::stale_k_tile, "stale_k_tile", Stage::k, "trip / tile", scalar | wmma | fast | stable | fp8,
     "KV tile t >= 2 multiplies with the K of tile t - 1", "--shape 1,2,64,256,64"},
    {Fault::zero_scale, "zero_scale", Stage::k, "fp8 scale", fp8,
     "the quantiser gives a zero tensor the scale 0: its codes are 0 / 0",
     "--shape 1,2,64,128,64 --input zero_head"},
    {Fault::head_modulo, "head_modulo", Stage::k, "head / batch map", scalar | wmma | fast | stable | fp8,
     "query head h reads KV head h % heads_kv, not h / (heads / heads_kv)",
     "--shape 1,6,64,128,64 --heads-kv 2"},
    {Fault::qk_barrier_missing, "qk_barrier_missing", Stage::k, "race", scalar | wmma | stable,
     "P is stored over K, with no barrier after QK^T: a slower warp still multiplies with that K",
     "--shape 1,2,64,256,64", true},
    {Fault::rows_not_divided, "rows_not_divided", Stage::k, "unwritten / stale", fast,
     "the threads that load K do not divide its rows: the last 16 rows of each tile are left out",
     "--shape 1,2,64,256,64"},
    {Fault::map_not_swizzled, "map_not_swizzled", Stage::k, "layout", fast_wgmma,
     "the tensor map of K has no swizzle, and wgmma undoes one of 128 bytes", "--shape 1,2,256,256,64"},
    {Fault::stage_of_tile_before, "stage_of_tile_before", Stage::k, "unwritten / stale", fast_wgmma,
     "K is read from the stage of the ring that holds the tile before", "--shape 1,2,256,256,64"},
    {Fault::arrival_missing, "arrival_missing", Stage::k, "synchronisation", fast_wgmma,
     "the second consumer does not arrive at the barrier that frees a stage of K: while it is late in tile "
     "1, "
     "tile 3 is fetched over it",
     "--shape 1,2,256,512,64"},
    {Fault::products_not_awaited, "products_not_awaited", Stage::k, "synchronisation", fast_wgmma,
     "a stage of K is freed before the products that read it are done: their group is not waited for, and "
     "here it "
     "begins when a later tile is there",
     "--shape 1,2,256,512,64"},
    {Fault::v_next_tile, "v_next_tile", Stage::v, "trip / tile", scalar | wmma | fast | stable | cublas | fp8,
     "KV tile t multiplies with the V of tile t + 1", "--shape 1,2,64,256,64"},
    {Fault::p_over_v, "p_over_v", Stage::v, "unwritten / stale", scalar | stable | cublas,
     "P is stored in the shared memory of the V tile that it is about to be multiplied with",
     "--shape 1,2,64,128,64"},
    {Fault::load_before_barrier, "load_before_barrier", Stage::v, "race", scalar | stable | cublas,
     "no barrier before the next load: it overwrites the V tile that a slower warp still reads",
     "--shape 1,2,64,512,64", true},
    {Fault::causal_top_left, "causal_top_left", Stage::s, "mask geometry",
     scalar | wmma | fast | stable | cublas | fp8,
     "the causal diagonal starts at the top left although seqlen_q and seqlen_kv differ",
     "--shape 1,2,96,224,64 --causal"},
    {Fault::scale_twice, "scale_twice", Stage::s, "constants", scalar | wmma | stable | cublas | fp8,
     "sm_scale is multiplied to the scores twice", "--shape 1,2,64,128,64"},
    {Fault::descale_k_missing, "descale_k_missing", Stage::s, "fp8 scale", fp8,
     "the scores are not multiplied with the descale of K", "--shape 1,2,64,128,64"},
    {Fault::descale_q_twice, "descale_q_twice", Stage::s, "fp8 scale", fp8,
     "the scores are multiplied with the descale of Q twice", "--shape 1,2,64,128,64"},
    {Fault::descale_of_query_head, "descale_of_query_head", Stage::s, "fp8 scale", fp8,
     "the descale of K is read at the query head's index, not at that of its KV head",
     "--shape 1,6,64,128,64 --heads-kv 2"},
    {Fault::k_slice_missing, "k_slice_missing", Stage::s, "layout",
     scalar | wmma | fast | stable | cublas | fp8,
     "the dot product leaves out the last 16 elements of head_dim", "--shape 1,2,64,128,64"},
    {Fault::half_scores, "half_scores", Stage::s, "overflow", scalar | wmma | fast | stable | cublas | fp8,
     "q k is kept in float16 before it is scaled: infinite beyond 65504",
     "--shape 1,2,64,128,64 --input large"},
    {Fault::wrong_ldm, "wrong_ldm", Stage::s, "layout", wmma | cublas,
     "the leading dimension leaves out the padding of the rows: of K (wmma), or of the stored scores "
     "(cublas)",
     "--shape 1,2,64,200,64"},
    {Fault::beta_is_one, "beta_is_one", Stage::s, "unwritten / stale", cublas,
     "beta is 1: q k is added to what the memory of the scores held before", "--shape 1,2,64,128,64"},
    {Fault::first_fragment_only, "first_fragment_only", Stage::s, "layout", wmma | fast,
     "only the first 16 columns of each S tile are multiplied, the rest stays zero", "--shape 1,2,64,128,64"},
    {Fault::fragment_per_thread, "fragment_per_thread", Stage::s, "unwritten / stale", wmma,
     "each lane fills its Q fragment from eight elements of its own, in an order that the hardware has not",
     "--shape 1,2,64,128,64"},
    {Fault::k_row_major, "k_row_major", Stage::s, "layout", scalar | wmma | stable | cublas,
     "K is read row-major where the product takes it column-major: 16 x 16 corners, the tile, or all of a "
     "head",
     "--shape 1,2,64,128,64"},
    {Fault::score_in_lane_0, "score_in_lane_0", Stage::s, "reduction", scalar | stable,
     "the parts of a dot product are added up in lane 0 alone: lane n lacks the parts of lanes before it",
     "--shape 1,2,64,128,64"},
    {Fault::swizzle_missing, "swizzle_missing", Stage::s, "layout", fast,
     "the K fragments are loaded from shared memory without its swizzle", "--shape 1,2,64,128,64"},
    {Fault::descriptor_not_swizzled, "descriptor_not_swizzled", Stage::s, "layout", fast_wgmma,
     "the descriptor of K tells wgmma of no swizzle", "--shape 1,2,256,256,64"},
    {Fault::parity_kept, "parity_kept", Stage::s, "synchronisation", fast_wgmma,
     "consumers wait for the same parity of K's barriers in every turn of the ring: the second one reads "
     "what the "
     "first one left, before the transfer arrives",
     "--shape 1,2,256,512,64"},
    {Fault::mask_tile_local, "mask_tile_local", Stage::s, "mask geometry",
     scalar | wmma | fast | stable | cublas, "the mask counts keys from the beginning of the tile",
     "--shape 1,2,64,256,64 --causal"},
    {Fault::m_starts_at_zero, "m_starts_at_zero", Stage::m, "recurrence",
     scalar | wmma | fast | stable | cublas | fp8, "the running maximum starts at 0 instead of -inf",
     "--shape 1,2,64,128,64 --input negative"},
    {Fault::max_own_lane, "max_own_lane", Stage::m, "reduction", scalar | wmma | fast | stable | cublas | fp8,
     "the row maximum covers only the columns of the calling lane", "--shape 1,2,64,128,64"},
    {Fault::wrong_lanes, "wrong_lanes", Stage::m, "reduction", scalar | wmma | fast | stable | cublas,
     "the row maximum is reduced over lanes that hold the same columns of other rows",
     "--shape 1,2,64,128,64"},
    {Fault::row_state_shared, "row_state_shared", Stage::m, "reduction",
     scalar | wmma | fast | stable | cublas,
     "the row maximum is reduced over the whole warp, whose rows share it", "--shape 1,2,64,128,64"},
    {Fault::exp_clamped, "exp_clamped", Stage::p, "guards", scalar | wmma | fast | stable | cublas | fp8,
     "the argument of exp is clamped at -5", "--shape 1,2,64,192,64 --causal"},
    {Fault::p_bf16, "p_bf16", Stage::p, "precision", scalar | wmma | fast | stable | cublas,
     "P is rounded to bfloat16 without saying so", "--shape 1,2,64,128,64"},
    {Fault::p_lane_stride, "p_lane_stride", Stage::p, "unwritten / stale",
     scalar | wmma | stable | cublas | fp8,
     "the lanes fill P with twice their stride and leave every second group of columns unwritten",
     "--shape 1,2,64,128,64"},
    {Fault::p_tail_kept, "p_tail_kept", Stage::p, "unwritten / stale", scalar | wmma | stable | cublas,
     "masked cells of P are skipped and keep what the tile before left there",
     "--shape 1,2,96,224,64 --causal"},
    {Fault::max_in_lane_0, "max_in_lane_0", Stage::p, "reduction", scalar | wmma | stable | cublas,
     "the row maximum is right in lane 0 alone, as after __shfl_down, and every lane uses its own",
     "--shape 1,2,64,128,64"},
    {Fault::inf_minus_inf, "inf_minus_inf", Stage::p, "guards", scalar | wmma | fast | stable | cublas,
     "rows that saw no key yet subtract a maximum of -inf from a score of -inf",
     "--shape 1,2,96,48,64 --causal"},
    {Fault::log2e_missing, "log2e_missing", Stage::p, "constants", fast,
     "the exponential to base two is given scores without log2(e)", "--shape 1,2,64,128,64"},
    {Fault::p_not_scaled, "p_not_scaled", Stage::p, "fp8 scale", fp8,
     "P is not scaled before its cast to e4m3, in which small probabilities become 0",
     "--shape 1,2,64,128,64"},
    {Fault::p_not_saturated, "p_not_saturated", Stage::p, "precision", fp8,
     "P is scaled by twice as much and cast to e4m3 without saturation: NaN beyond 448",
     "--shape 1,2,64,128,64"},
    {Fault::tail_counted, "tail_counted", Stage::l, "tail", scalar | wmma | fast | stable | cublas | fp8,
     "keys past seqlen_kv are left out of the maximum but added to the row sum", "--shape 1,2,64,200,64"},
    {Fault::l_not_rescaled, "l_not_rescaled", Stage::l, "recurrence",
     scalar | wmma | fast | stable | cublas | fp8,
     "the row sum is not rescaled when the running maximum rises", "--shape 1,2,64,256,64 --input ramped"},
    {Fault::acc_not_rescaled, "acc_not_rescaled", Stage::acc, "recurrence",
     scalar | wmma | fast | stable | cublas | fp8,
     "the O accumulator is not rescaled when the running maximum rises",
     "--shape 1,2,64,256,64 --input ramped"},
    {Fault::nan_times_zero, "nan_times_zero", Stage::acc, "0 * NaN",
     scalar | wmma | fast | stable | cublas | fp8,
     "V rows past seqlen_kv are not zeroed and hold what lies behind V: 0 * NaN is NaN",
     "--shape 1,2,64,200,64"},
    {Fault::half_accumulator, "half_accumulator", Stage::acc, "precision",
     scalar | wmma | fast | stable | cublas | fp8, "the O accumulator is kept in float16 between KV tiles",
     "--shape 1,2,64,256,64 --input distinct_v"},
    {Fault::softmax_barrier_missing, "softmax_barrier_missing", Stage::acc, "race", wmma,
     "each warp multiplies the P of the next warp's rows, with no barrier after the softmax that stores it",
     "--shape 1,2,64,256,64", true},
    {Fault::v_not_transposed, "v_not_transposed", Stage::acc, "layout", fast,
     "the V fragments are loaded row-major where the product takes them column-major",
     "--shape 1,2,64,128,64"},
    {Fault::v_overwritten, "v_overwritten", Stage::acc, "synchronisation", fast,
     "V of a later tile is loaded over the one that is being multiplied: no barrier before the load",
     "--shape 1,2,64,256,64"},
    {Fault::double_normalised, "double_normalised", Stage::o, "constants",
     scalar | wmma | fast | stable | cublas | fp8, "the output is divided by the row sum twice",
     "--shape 1,2,64,128,64"},
    {Fault::not_normalised, "not_normalised", Stage::o, "constants", scalar | wmma | fast | stable | cublas,
     "the output is not divided by the row sum", "--shape 1,2,64,128,64"},
    {Fault::epsilon_too_large, "epsilon_too_large", Stage::o, "guards", stable,
     "the epsilon in the denominator is 1e-3, which a row sum of 1 feels", "--shape 1,2,96,96,64 --causal"},
    {Fault::columns_uncovered, "columns_uncovered", Stage::o, "coverage",
     scalar | wmma | fast | stable | cublas | fp8, "the last 16 columns of the output are never written",
     "--shape 1,2,64,128,64"},
    {Fault::rows_uncovered, "rows_uncovered", Stage::o, "coverage", scalar | wmma | stable | cublas,
     "the rows of a block are dealt out to three warps; those left over are never written",
     "--shape 1,2,64,128,64"},
    {Fault::consumers_swapped, "consumers_swapped", Stage::o, "layout", fast_wgmma,
     "the two consumers store each other's rows", "--shape 1,2,256,256,64"},
    {Fault::store_not_fenced, "store_not_fenced", Stage::o, "synchronisation", fast_wgmma,
     "the copy of o from shared memory is not fenced from the stores that fill it, and reads what was there "
     "before",
     "--shape 1,2,256,256,64"},
    {Fault::descale_v_missing, "descale_v_missing", Stage::o, "fp8 scale", fp8,
     "the output is not multiplied with the descale of V", "--shape 1,2,64,128,64"},
    {Fault::lse_base2, "lse_base2", Stage::lse, "split / combine",
     scalar | wmma | fast | stable | cublas | fp8,
     "the log-sum-exp is stored to base 2 although it is declared natural", "--shape 1,2,64,128,64"},
};

}  // namespace fault_table

using fault_table::all_faults;

constexpr bool applies_to(const FaultInfo& info, FaultyKernel kernel) {
    return (std::uint32_t(info.kernels) & std::uint32_t(kernel)) != 0;
}

const FaultInfo* find_fault(std::string_view name);
/// The row of `fault`, which is not none.
const FaultInfo& fault_info(Fault fault);

}  // namespace tilescope
