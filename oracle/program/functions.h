#pragma once

#include <cstdint>

#include "dump/schema/program.h"
#include "oracle/describe/real.h"
#include "oracle/solve/number_grid.h"

namespace tilescope {

// What a kernel in float32 makes of a number that may be off, and how far off that may be.

/// Of any way to compute it in float32: by the function of CUDA's library, the fast one, or exponentials of base two.
/// Types: float64.
/// Max error: what x may be off by, carried on, and at most a few ulp of float32.
/// Valid range: every number; what is open, as the logarithm of what may be negative, has an infinite error.
/// Sources: CUDA C++ Programming Guide, mathematical functions; for sigmoid and what is made of it, its formula.
Uncertain function_of(ProgramFunction function, Uncertain x);

/// As float32 holds it: beyond its largest number comes infinity, and near that either.
Uncertain in_range(Uncertain x);

/// exp(x - y) or exp2(x - y), where compilers fuse products into the difference, and kernels take the exponential of the
/// other base.
Uncertain exponential_of_difference(ProgramFunction function, Uncertain x, Uncertain y);

/// exp or exp2 of a minimum with a number that is exact, which no rounding makes larger.
Uncertain exponential_up_to(ProgramFunction function, Uncertain x, double most);

/// Beside what operations of reals round: what is near zero may be flushed to it.
Uncertain product_of(Uncertain x, Uncertain y);
/// A division, or a product with the reciprocal.
Uncertain quotient_of(Uncertain x, Uncertain y);

/// The x of which the function is y; `near`: the x that it should be, where several are. Its error is infinite where there is none.
Uncertain inverse_of(ProgramFunction function, Uncertain y, double near);

/// x ^ bits or x & bits, of x as a float32. Where what x may be off by reaches across a change of the bits its error is infinite.
Uncertain with_other_bits(ProgramOp op, Uncertain x, std::uint32_t bits);

/// Rounded to nearest in that type: what lies between both ends, rounded.
Uncertain cast_to(Dtype dtype, Uncertain x);

/// The floats of a type.
NumberGrid grid_of(const DtypeInfo& info);

}  // namespace tilescope
