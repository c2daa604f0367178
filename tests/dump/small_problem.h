#pragma once

#include "dump/schema.h"

namespace tilescope::test {

/// Every size differs from the others, and the last block and the last tile are cut: 3 query blocks of 4, 4
/// and 2 rows, 3 KV tiles of 5, 5 and 3 keys.
inline Problem small_problem() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 6;
    problem.heads_kv = 3;
    problem.seqlen_q = 10;
    problem.seqlen_kv = 13;
    problem.head_dim = 8;
    problem.head_dim_v = 7;
    problem.block_m = 4;
    problem.block_n = 5;
    problem.sm_scale = 0.25;
    return problem;
}

/// The backward pass of the same call; two query heads add up to a head of dk and dv.
inline Problem small_backward_problem() {
    Problem problem = small_problem();
    problem.direction = Direction::backward;
    return problem;
}

}  // namespace tilescope::test
