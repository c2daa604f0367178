#pragma once

// What the warp-specialised builds of the fast kernel are compiled for, and how their warps and their shared memory
// are laid out.

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/attention/along_keys.h"
#include "kernels/attention/e4m3.cuh"
#include "kernels/attention/fast_config.cuh"
#include "kernels/attention/hopper.cuh"
#include "kernels/attention/steps.h"
#include "kernels/attention/wgmma.cuh"

namespace tilescope {

/// What follows from the type of Q, K and V: who runs such builds, and the type of o.
template <class Element>
struct HopperElement {
    static constexpr const char* kernel = "fast";
    static constexpr CUtensorMapDataType in_maps =
        std::is_same_v<Element, __half> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    using Output = Element;
};
template <>
struct HopperElement<E4m3> {
    static constexpr const char* kernel = "fp8";
    static constexpr CUtensorMapDataType in_maps = CU_TENSOR_MAP_DATA_TYPE_UINT8;
    using Output = __half;
};

/// Warpgroups of four warps. The first ones are consumers, which own 64 rows of the query block each and
/// compute; the last one is the producer, which fetches tiles.
template <class Element_, int block_m_, int block_n_, int stages_, int head_dim_>
struct HopperConfig {
    using Element = Element_;
    using Output = typename HopperElement<Element>::Output;
    static constexpr int element_bytes = sizeof(Element);
    static constexpr bool is_fp8 = element_bytes == 1;
    static constexpr int block_m = block_m_;
    static constexpr int block_n = block_n_;
    static constexpr int stages = stages_;  ///< of K, and as many of V
    static constexpr int head_dim = head_dim_;
    static constexpr int group = 128;  ///< threads of a warpgroup
    static constexpr int group_rows = 64;
    static constexpr int consumers = block_m / group_rows;
    static constexpr int threads = (consumers + 1) * group;
    /// Registers of a thread. A multiprocessor has 65536.
    static constexpr int producer_registers = consumers == 2 ? 24 : 32;
    static constexpr int consumer_registers = consumers == 2 ? 240 : 160;
    static constexpr int scores = block_n / 2;    ///< of a consumer's thread
    static constexpr int outputs = head_dim / 2;  ///< of a consumer's thread
    static constexpr int depth = product_depth_bytes / element_bytes;
    static constexpr int depths = head_dim / depth;     ///< steps of a score,
    static constexpr int key_depths = block_n / depth;  ///< and of the accumulator
    static constexpr int feature_tiles = head_dim / 8;
    /// A tile in shared memory: rows of 64 or 128 bytes of features, then the same rows of the next ones. V in fp8 has
    /// rows of keys, of each feature.
    static constexpr int row_bytes = swizzled_row_bytes(head_dim * element_bytes);
    static constexpr int v_row_bytes = is_fp8 ? swizzled_row_bytes(block_n) : row_bytes;
    static constexpr int box_features = row_bytes / element_bytes;
    static constexpr int boxes = head_dim / box_features;
    static constexpr int v_boxes = is_fp8 ? block_n / v_row_bytes : boxes;
    static constexpr int q_bytes = block_m * head_dim * element_bytes;
    static constexpr int kv_bytes = block_n * head_dim * element_bytes;
    static_assert((consumers == 2 || consumers == 3) && block_m % group_rows == 0 && block_n % depth == 0 &&
                  block_n <= 256);
    static_assert(head_dim % box_features == 0 && stages >= 2);
    static_assert(!is_fp8 || block_n % v_row_bytes == 0);
};

/// The tensors as copies see them: a row of a box, rows, the next part of these rows, heads of all batch entries. Of V
/// in fp8 the rows are features, of keys.
struct HopperMaps {
    CUtensorMap q, k, v;
};

/// A block of queries.
struct HopperWork {
    int q_block;  ///< negative when there is none left
    int head;
    int batch;
    int kv_tiles;
};

}  // namespace tilescope

namespace tilescope::KERNEL_BUILD {

template <class Config>
struct HopperShared {
    alignas(swizzled_unit_bytes) unsigned char q[Config::q_bytes];
    alignas(swizzled_unit_bytes) unsigned char k[Config::stages][Config::kv_bytes];
    alignas(swizzled_unit_bytes) unsigned char v[Config::stages][Config::kv_bytes];
    // What was fetched is there, and what was there is no longer needed.
    SharedBarrier q_full, q_empty;
    SharedBarrier k_full[Config::stages], k_empty[Config::stages];
    SharedBarrier v_full[Config::stages], v_empty[Config::stages];
    int queued;  ///< the number of the block of queries that comes with q, in a launch that records
};

/// A stage of a ring of tiles, and the parity of the phase that its barriers are in.
template <class Config>
struct RingPlace {
    int stage = 0;
    std::uint32_t parity = 0;

    KERNEL_FUNCTION void advance() {
        if (++stage < Config::stages) return;
        stage = 0;
        parity ^= 1;
    }
    KERNEL_FUNCTION RingPlace before() const {
        return stage > 0 ? RingPlace{stage - 1, parity} : RingPlace{Config::stages - 1, parity ^ 1};
    }
};

}  // namespace tilescope::KERNEL_BUILD
