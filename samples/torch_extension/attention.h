#pragma once

// What the extension's two halves share: the kernels are compiled without PyTorch, the binding without nvcc.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "dump/schema/dtype.h"

/// Contiguous tensors on the device: q and o [batch, heads, seqlen_q, head_dim], k and v with heads_kv and
/// seqlen_kv, of `dtype` (f16 or bf16); lse [batch, heads, seqlen_q] in float32.
struct AttentionCall {
    const void* q;
    const void* k;
    const void* v;
    void* o;
    float* lse;
    std::int64_t batch;
    std::int64_t heads;
    std::int64_t heads_kv;
    std::int64_t seqlen_q;
    std::int64_t seqlen_kv;
    std::int64_t head_dim;  ///< 64 or 128
    tilescope::Dtype dtype;
    bool causal;  ///< row i sees keys up to i, as is_causal of PyTorch
    float sm_scale;
};

/// Computes o and lse on the stream and waits. With -DDEBUG_DUMP, and unless `dump_path` is empty, records
/// the run there. Errors: std::exception.
void run_attention(const AttentionCall& call, const std::string& dump_path, cudaStream_t stream);

/// Contiguous tensors on the device, beside those of the forward call.
struct BackwardCall {
    AttentionCall forward;  ///< reads o and lse too
    const void* dout;       ///< as o
    float* delta;           ///< [batch, heads, seqlen_q], written
    float* dq_sum;          ///< as q, in float32; zeros before the call
    void* dq;               ///< as q, k and v
    void* dk;
    void* dv;
};

/// Computes dq, dk and dv on the stream and waits, with the planted fault of that name; empty: none. Records
/// as run_attention() does. Errors: std::exception.
void run_attention_backward(const BackwardCall& call, const std::string& fault, const std::string& dump_path,
                            cudaStream_t stream);
