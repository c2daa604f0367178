#pragma once

#include "dump/recording/program_call.h"
#include "oracle/program/numbers.h"

namespace tilescope {

// Operations on all elements at once, where possible by the kernels of element_kernels.h.

/// In the range of float32.
Numbers product_of(const Numbers& x, const Numbers& y);

/// Rounded to nearest in that type.
Numbers cast_of(Dtype dtype, const Numbers& x);

/// Elements of an input or of what a kernel stored, from the first-th on.
void decode(const ProgramInput& array, std::int64_t first, std::int64_t count, double* values);

/// Says with a 1 which elements somebody wrote.
void mark_written(const double* values, std::int64_t count, char* known);

}  // namespace tilescope
