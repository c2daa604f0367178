#pragma once

#include <vector>

#include "oracle/causes/cause.h"

namespace tilescope {

// Scores of a kernel that multiplies whole heads at once, by a library or into global memory: looked for
// where no tile of q and k was dumped. A matrix that is read otherwise than it was written then is that of a
// head, or of the query heads that share a KV head, one after the other.

/// K of a KV head, [seqlen_kv][head_dim], read as [head_dim][seqlen_kv].
std::vector<Candidate> k_of_head_transposed(const Evidence& evidence);

/// The scores written with one distance between rows and read with another.
std::vector<Candidate> scores_of_head_shifted(const Evidence& evidence);

}  // namespace tilescope
