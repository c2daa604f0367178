#pragma once

#include <optional>

#include "oracle/causes/array_addresses.h"
#include "oracle/describe/expr.h"

namespace tilescope {

/// An index into an output of all heads that is linear in batch, head, query and d.
struct ArrayStrides {
    Expr
        address;  ///< "batch * heads * seqlen_q * head_dim_v + query * heads * head_dim_v + head * head_dim_v + d"
    int choices = 0;  ///< strides that are not those of [batch][head][query][d], and the offset
};

/// The strides that the bad tiles speak for together, each of which tells two of them by itself; nullopt where they
/// do not agree, and where they are those that the array has.
std::optional<ArrayStrides> array_strides(const Evidence& evidence, const ArrayExtents& array,
                                          const SourcesOf& sources_of);

}  // namespace tilescope
