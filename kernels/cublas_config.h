#pragma once

#include "kernels/scalar_body.h"

namespace tilescope {

/// The scalar kernel on products that cuBLAS has stored.
template <int block_m_, int block_n_, int stages_, int head_dim_>
struct CublasConfig : ScalarConfig<block_m_, block_n_, stages_, head_dim_> {
    using Products = StoredProducts;
    static constexpr const char* kernel = "cublas";
};

}  // namespace tilescope
