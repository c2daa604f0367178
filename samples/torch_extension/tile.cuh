#pragma once

// What the forward and the backward kernel share.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "dump/schema.h"
#include "samples/torch_extension/attention.h"

__device__ inline float to_float(__half value) {
    return __half2float(value);
}
__device__ inline float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}
__device__ inline void store(float value, __half* to) {
    *to = __float2half_rn(value);
}
__device__ inline void store(float value, __nv_bfloat16* to) {
    *to = __float2bfloat16_rn(value);
}

/// Copies a tile from global to shared memory; rows beyond the sequence become zeros.
template <class T, int rows, int head_dim>
__device__ void load_tile(const T* from, int first, int seqlen, T* tile) {
    for (int i = threadIdx.x; i < rows * head_dim; i += blockDim.x) {
        const int row = first + i / head_dim;
        T value;
        store(0.0f, &value);
        if (row < seqlen) value = from[size_t(row) * head_dim + i % head_dim];
        tile[i] = value;
    }
}

inline tilescope::Problem problem_of(const AttentionCall& call, int block_m, int block_n) {
    tilescope::Problem problem;
    problem.batch = call.batch;
    problem.heads = call.heads;
    problem.heads_kv = call.heads_kv;
    problem.seqlen_q = call.seqlen_q;
    problem.seqlen_kv = call.seqlen_kv;
    problem.head_dim = problem.head_dim_v = call.head_dim;
    problem.block_m = block_m;
    problem.block_n = block_n;
    problem.sm_scale = double(call.sm_scale);
    problem.mask = call.causal ? tilescope::Mask::causal : tilescope::Mask::none;
    problem.causal_alignment = tilescope::CausalAlignment::top_left;
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = call.dtype;
    return problem;
}

inline void wait_for(cudaStream_t stream) {
    cudaError_t status = cudaGetLastError();
    if (status == cudaSuccess) status = cudaStreamSynchronize(stream);
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
