#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

namespace ring {

/// Mistakes that the sample can make, for tile-diff to find.
enum class Mistake {
    none,
    stale_shard,
    wrong_shard,
    transfer_incomplete,
    wrong_rows_of_shard,
    local_positions,
    keys_left_out,
    keys_taken_twice,
    merge_in_base_two,
    merge_without_rescaling,
    merge_without_weights,
    lse_in_bf16
};

/// Merges partial rows [heads][rows] into the rank's rows [heads][all_rows], of which they are those from `first_row` on.
/// lse is -inf before the first step. One block a row, one thread a column.
__global__ void merge(float* o, float* lse, const __half* o_step, const float* lse_step, int rows,
                      int all_rows, int first_row, Mistake mistake) {
    const int head = int(blockIdx.y);
    const int row = int(blockIdx.x);
    const int columns = int(blockDim.x);
    const int column = int(threadIdx.x);
    const long long at = (long long)head * all_rows + first_row + row;
    const long long step_at = (long long)head * rows + row;
    float a = lse[at];
    float b = lse_step[step_at];
    const float o_b = __half2float(o_step[step_at * columns + column]);
    float o_a = o[at * columns + column];
    __syncthreads();  // before the first column stores lse
    if (mistake == Mistake::lse_in_bf16) {
        a = __bfloat162float(__float2bfloat16(a));
        b = __bfloat162float(__float2bfloat16(b));
    }
    if (a == -CUDART_INF_F && b == -CUDART_INF_F) return;
    const bool base_two = mistake == Mistake::merge_in_base_two;
    const float most = fmaxf(a, b);
    const float e_a = base_two ? exp2f(a - most) : expf(a - most);
    const float e_b = base_two ? exp2f(b - most) : expf(b - most);
    const float sum = e_a + e_b;
    float w_a = e_a / sum;
    float w_b = e_b / sum;
    const bool has_before = a != -CUDART_INF_F;
    if (has_before && mistake == Mistake::merge_without_rescaling) w_a = 1.0f;
    if (has_before && mistake == Mistake::merge_without_weights) w_a = w_b = 1.0f;
    o[at * columns + column] = w_a * o_a + w_b * o_b;
    if (column != 0) return;
    float merged = most + (base_two ? log2f(sum) : logf(sum));
    if (mistake == Mistake::lse_in_bf16) merged = __bfloat162float(__float2bfloat16(merged));
    lse[at] = merged;
}

/// What the rank has at the end, in the type of o.
__global__ void store(__half* to, const float* o, long long elements) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < elements) to[i] = __float2half(o[i]);
}

__global__ void fill(float* to, float value, long long elements) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < elements) to[i] = value;
}

}  // namespace ring
