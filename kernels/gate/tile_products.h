#pragma once

#include <span>
#include <string_view>

namespace tilescope {

/// One tile of Q and K in device memory, row-major: [block_m][head_dim] and [block_n][head_dim] of float16,
/// and what becomes of them, [block_m][block_n] of float32.
struct TileOperands {
    const void* q = nullptr;
    const void* k = nullptr;
    float* s = nullptr;
};

/// A way to compute s = q k^T of one tile.
struct TileProduct {
    std::string_view implementation;
    int block_m;
    int block_n;
    int head_dim;
    /// Enqueues it in the calling thread's default stream. Errors: Error when it is refused.
    void (*launch)(const TileOperands& operands);
};

/// By cuBLAS, and by the code of the kernels wmma and scalar, for the tiles of wmma.
std::span<const TileProduct> all_tile_products();

}  // namespace tilescope
