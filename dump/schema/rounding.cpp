#include "dump/schema/rounding.h"

#include <cmath>

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double ulp_f32 = 2 * u_f32;

/// Every term of a block and the sum before it lose less than one unit of the last bit kept of the largest of
/// them; then the sum is truncated to float32. Spread over the terms.
SumRounding truncated_blocks(int terms, int bits) {
    const double of_terms = (terms + 1) * std::exp2(-bits);
    return {.per_partial_sum = (of_terms + ulp_f32) / terms, .underflow = flush_to_zero, .norm_share = 1};
}

}  // namespace

TensorCore tensor_core(std::string_view compute_capability) {
    if (compute_capability.starts_with("9.")) return {.terms = 16, .bits = 25};
    return {};
}

SumRounding sum_rounding(const TensorCore& core, Accumulation accumulation) {
    // Partial sums are computed ones: off by a relative n u themselves, which 2^-10 covers up to n = 2^14.
    constexpr double computed = 1 + 0x1p-10;
    const auto rounded = [&](double u, double underflow) {
        return SumRounding{
            .per_partial_sum = u * computed, .to_nearest = u * computed, .underflow = underflow};
    };
    switch (accumulation) {
        case Accumulation::fma_f32:
            return rounded(u_f32, flush_to_zero);
        case Accumulation::fma_f16:
            return rounded(unit_roundoff(Dtype::f16), half_quantum(Dtype::f16));
        case Accumulation::fma_bf16:
            return rounded(unit_roundoff(Dtype::bf16), half_quantum(Dtype::bf16));
        case Accumulation::tensor_core_f32:
            return truncated_blocks(core.terms, core.bits);
        case Accumulation::tensor_core_f16: {
            SumRounding bound = rounded(unit_roundoff(Dtype::f16), half_quantum(Dtype::f16));
            bound.per_partial_sum += truncated_blocks(core.terms, core.bits).per_partial_sum;
            bound.to_nearest = 0;
            bound.norm_share = 1;
            return bound;
        }
        case Accumulation::tensor_core_tf32: {
            // Blocks of 32-bit operands hold half as many terms.
            SumRounding bound = truncated_blocks(core.terms / 2, core.bits);
            // Hardware may cut the operands off rather than round them.
            bound.operand = gamma(2, 0x1p-10);
            return bound;
        }
        case Accumulation::tensor_core_fp8:
            return truncated_blocks(core.fp8_terms, core.fp8_bits);
    }
    return {.per_partial_sum = infinity};
}

ExpFunctionBound exp_function_bound(const Units& units) {
    if (units.p_exp_error > 0) return {units.p_exp_error, 0};
    switch (units.p_exp) {
        case ExpFunction::expf:
        case ExpFunction::exp2f:
        case ExpFunction::ex2_approx:
            return {2 * ulp_f32, 0};
        case ExpFunction::fast_expf:
            return {2 * ulp_f32, 1.173 * ulp_f32};
    }
    return {infinity, 0};
}

ExpArgumentBound exp_argument_bound(ExpFunction function) {
    const bool base_two = function == ExpFunction::exp2f || function == ExpFunction::ex2_approx;
    return {u_f32, base_two ? gamma(3, u_f32) : u_f32};
}

double tanh_function_bound(TanhFunction function) {
    return function == TanhFunction::tanhf ? 2 * ulp_f32 : 0x1p-11;
}

double log_function_bound(double log_value) {
    return std::exp2(-21.41) + 6 * u_f32 * std::abs(log_value);
}

double cast_bound(Dtype dtype, double magnitude) {
    return dtype == Dtype::f32 ? 0 : unit_roundoff(dtype) * magnitude + half_quantum(dtype);
}

}  // namespace tilescope
