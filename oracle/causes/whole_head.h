#pragma once

#include <vector>

#include "oracle/causes/table.h"

namespace tilescope {

// Mistakes in scores of a kernel that multiplies whole heads at once, by cuBLAS for example. They are looked
// for where no tile of q and k was dumped. A matrix with a wrong layout is then that of a whole head, or of
// the query heads that share a KV head, one after the other.

/// K of a KV head, [seqlen_kv][head_dim], read as [head_dim][seqlen_kv].
std::vector<Candidate> k_of_head_transposed(const Evidence& evidence);

/// The scores written with one distance between rows and read with another.
std::vector<Candidate> scores_of_head_shifted(const Evidence& evidence);

}  // namespace tilescope
