#pragma once

#include <cstdint>

#include "dump/schema/dtype.h"

namespace tilescope {

/// The arguments of one attention call, as a kernel takes them. The arrays are of the dtype that the kernel
/// is built for (lse: float32; q, k and v: e4m3 where there are descales), contiguous, [batch][heads or
/// heads_kv][seqlen][head_dim] (v in e4m3 for wgmma: see along_keys.h), and void here because host and device
/// compilers name float16 differently.
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
    int causal_offset = 0;             ///< query i sees key j when j <= i + causal_offset
    const float* descale_q = nullptr;  ///< [batch][heads]: what the elements of a head are multiplied with
    const float* descale_k = nullptr;  ///< [batch][heads_kv]
    const float* descale_v = nullptr;
    /// Scratch of kernels that store q k^T: [batch][heads][seqlen_q][products_pitch], float32.
    void* products = nullptr;
    std::int64_t products_pitch = 0;
};

/// What a build of a kernel is compiled for.
struct KernelConfig {
    int block_m = 0;
    int block_n = 0;
    int stages = 0;  ///< KV tiles in flight
    int head_dim = 0;
    Dtype dtype = Dtype::f16;    ///< of o, and of q, k and v before they are quantised
    int splits = 1;              ///< parts of the KV tiles that are attended to side by side, and merged
    std::int64_t most_rows = 0;  ///< query rows of all heads up to which this is the fast one; 0: any number
    bool p_in_fp8 = false;       ///< P is e4m3 in the PV product, multiplied with fp8_p_scale before its cast
    bool wgmma = false;          ///< warp-specialised, with instructions that sm_90 alone has
    std::int64_t fewest_rows = 0;  ///< from so many query rows of all heads on this is the fast one

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
