#pragma once

// libtilescope_launches.so: the bundled kernels without hooks, for programs that are not C++, so that one process can
// time them and others in turn (tests/bench/measure_sdpa.py).

#include <cstddef>
#include <cstdint>

extern "C" {

/// One attention call: contiguous arrays in device memory, [batch][heads or heads_kv][seqlen][head_dim] of `dtype`, lse
/// [batch][heads][seqlen_q] of float32. sm_scale is 1 / sqrt(head_dim).
struct TilescopeCall {
    const char* kernel;  ///< scalar, wmma, stable or fast
    const char* config;  ///< empty: the default of the call
    const char* dtype;   ///< f16, bf16
    std::int64_t batch, heads, heads_kv, seqlen_q, seqlen_kv, head_dim;
    std::int64_t causal;  ///< 0 or 1, which asks for seqlen_q == seqlen_kv
    const void *q, *k, *v;
    void* o;
    float* lse;
};

/// Enqueues the call in the calling thread's default stream (cudaStreamPerThread), with its first launch setting up what
/// later ones find: it may be recorded in a CUDA graph once it ran.
/// Returns 0, or 1 and what is wrong in `error`, at most `error_bytes` with the zero at its end.
__attribute__((visibility("default"))) int tilescope_launch(const TilescopeCall* call, char* error,
                                                            std::size_t error_bytes);
}
