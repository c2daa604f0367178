#pragma once

#include "dump/schema.h"
#include "oracle/estimate.h"

namespace tilescope {

// One stage at a time, in float64, with a bound of what a kernel's float32 arithmetic may differ by. Every
// function takes what came before as an Estimate: the kernel's own dumped values (error 0) make the result
// stage-local, the results of the functions before make it end to end. Scores and maxima are in natural units
// here: scaled, base e. Results below flush_to_zero may have been flushed.
//
// R rows of the query block, N keys of the KV tile, both without padding.

/// Running statistics of the rows of a query block: m and l are R x 1, acc is R x head_dim_v.
struct RunningState {
    Estimate m;
    Estimate l;
    Estimate acc;
};

/// Before the first KV tile: m = -inf, l = 0, acc = 0.
RunningState initial_state(std::int64_t rows, std::int64_t head_dim_v);

/// q and k as staged, for scores(): the float32 magnitudes serve the bound alone.
struct Operand {
    Matrix value;
    MatrixF magnitude;
};
Operand make_operand(Matrix value);

/// S = sm_scale q k^T, R x N. Masked cells are not -inf yet. Bound: dot_product_bound * sum |q||k| sm_scale,
/// and the roundings of the multiplication by sm_scale where the dumped S has it.
Estimate scores(const Problem& problem, const Units& units, const Operand& q, const Operand& k);

/// Puts -inf, exactly, where the mask hides the key. `first_row` and `first_key` are the tile's corner in the
/// tensor.
void apply_mask(const Problem& problem, std::int64_t first_row, std::int64_t first_key, Estimate& s);

/// Running maximum after the tile, R x 1. A maximum rounds nothing; the bound is that of converting it, where
/// m is kept in other units than s.
Estimate row_max(const Units& units, const Estimate& m_before, const Estimate& s);

/// P = exp(s - m) before any cast, R x N; 0 where s is -inf.
Estimate probabilities(const Units& units, const Estimate& s, const Estimate& m);

/// Adds the bound of rounding to `dtype`; the values stay.
Estimate with_cast_bound(Estimate p, Dtype dtype);

/// exp(m_before - m), R x 1: the factor that l and acc are rescaled by; 0 where m_before is -inf.
Estimate rescale_factor(const Units& units, const Estimate& m_before, const Estimate& m);

/// l = l_before * factor + row sum of p.
Estimate row_sum(const Estimate& l_before, const Estimate& factor, const Estimate& p);

/// acc = acc_before * factor + p v. Keys whose score is -inf add nothing, whatever v holds there.
Estimate accumulate(const Units& units, const Estimate& acc_before, const Estimate& factor, const Estimate& p,
                    const Estimate& s, const Matrix& v);

/// O = acc / l, R x head_dim_v, with the bound of the store to dtype_o; 0 where l is 0.
Estimate output(const Problem& problem, const Estimate& acc, const Estimate& l);

/// lse = m + ln l, R x 1, natural logarithm; -inf where l is 0. Bound: the logarithm, and the roundings of
/// adding the two in any units.
Estimate log_sum_exp(const Estimate& m, const Estimate& l);

}  // namespace tilescope
