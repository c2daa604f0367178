#pragma once

// What numbers are multiplied with in the builds of the warp-specialised kernel: of e4m3 the codes of a head have a
// scale, and probabilities another one. Other builds have none.

#include "kernels/attention/fast_hopper_config.cuh"
#include "kernels/attention/fast_outputs.cuh"
#include "kernels/attention/fp8.h"

namespace tilescope {

/// P in e4m3 is multiplied with 2 to this power, and so is the row sum.
template <class Config>
inline constexpr float p_exponent = Config::is_fp8 ? 8.0f : 0.0f;
static_assert(fp8_p_scale == 256.0f, "p_exponent is its logarithm");

/// Scales of the heads that a block of queries reads.
struct HopperDescales {
    float scores;   ///< of Q and K
    float outputs;  ///< of V
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

template <class Config>
KERNEL_FUNCTION HopperDescales descales_of(const AttentionArgs& args, const HopperWork& work) {
    if constexpr (!Config::is_fp8) return {1.0f, 1.0f};
    const int kv = work.batch * args.heads_kv + head_kv(args, work.head);
    return {args.descale_q[work.batch * args.heads + work.head] * args.descale_k[kv], args.descale_v[kv]};
}

/// What a product of a query and a key is multiplied with to give the score.
template <class Config>
KERNEL_FUNCTION float score_scale(const AttentionArgs& args, const HopperWork& work) {
    if constexpr (!Config::is_fp8) return args.sm_scale;
    return descales_of<Config>(args, work).scores * args.sm_scale;
}

/// The state of a row without the scales of codes, but for sm_scale.
template <class Config>
KERNEL_FUNCTION RowState descaled(RowState row, const HopperDescales& descales) {
    if constexpr (!Config::is_fp8) return row;
    return {row.m * descales.scores, row.l * (1.0f / fp8_p_scale)};
}

/// What the accumulator is multiplied with. The scale of P is in the row sum, too.
template <class Config>
KERNEL_FUNCTION float output_factor(float l, const HopperDescales& descales) {
    if constexpr (!Config::is_fp8) return normaliser(l);
    return normaliser(l) * descales.outputs;
}

}  // namespace tilescope::KERNEL_BUILD
