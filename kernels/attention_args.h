#pragma once

namespace tilescope {

/// The arguments of one attention call, as a kernel takes them. The arrays are float16 (lse: float32),
/// contiguous, [batch][heads or heads_kv][seqlen][head_dim], and void here because host and device compilers
/// name float16 differently.
struct AttentionArgs {
    const void* q = nullptr;
    const void* k = nullptr;
    const void* v = nullptr;
    void* o = nullptr;
    float* lse = nullptr;  ///< [batch][heads][seqlen_q], natural logarithm
    int batch = 0;
    int heads = 0;
    int heads_kv = 0;
    int seqlen_q = 0;
    int seqlen_kv = 0;
    float sm_scale = 0;
    bool causal = false;
    int causal_offset = 0;  ///< query i sees key j when j <= i + causal_offset
};

/// The tile sizes that a build of a kernel is compiled for.
struct KernelConfig {
    int block_m = 0;
    int block_n = 0;
    int stages = 0;  ///< KV tiles in flight
    int head_dim = 0;

    bool operator==(const KernelConfig&) const = default;
};

/// How a kernel was launched.
struct Launch {
    unsigned grid_x = 0;
    unsigned grid_y = 0;
    unsigned grid_z = 0;
    unsigned threads = 0;
    unsigned long long shared_bytes = 0;
};

}  // namespace tilescope
