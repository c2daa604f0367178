// The kernel cublas: q k^T of all heads by one call of cuBLAS, the rest by the scalar kernel.

#include "kernels/attention/cublas.h"

#include "kernels/attention/cublas_library.h"
#include "kernels/attention/entry.h"
#include "kernels/attention/scalar_cuda.cuh"

namespace tilescope::KERNEL_BUILD {

/// The stream that <<<>>> launches in: cuBLAS has to be told.
inline cudaStream_t launch_stream() {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    return cudaStreamPerThread;
#else
    return nullptr;
#endif
}

/// q k^T of all heads. The query heads that share a KV head lie one after the other, in q and in the
/// products: together they are one matrix with as many rows, and there is a product for each KV head. The
/// numbers fit into an int because the products, at least 256 bytes a row, fit into memory.
template <class Config>
MatrixProducts products_of_heads(const AttentionArgs& args) {
    MatrixProducts products;
    products.a = args.q;
    products.b = args.k;
    products.c = args.products;
    products.count = args.batch * args.heads_kv;
    products.a_rows = args.heads / args.heads_kv * args.seqlen_q;
    products.b_rows = args.seqlen_kv;
    products.columns = Config::head_dim;
    products.pitch = args.products_pitch;
    products.depth = FAULT(k_slice_missing) ? Config::head_dim - 16 : Config::head_dim;
    products.ld = FAULT(wrong_ldm) ? args.seqlen_kv : int(args.products_pitch);
    products.b_column_major = FAULT(k_row_major);
    products.in_half = FAULT(half_scores);
    products.beta = FAULT(beta_is_one) ? 1.0f : 0.0f;
    return products;
}

struct CublasKernel : ScalarKernel<CublasConfig> {
    template <class Config>
    static Launch launch(const AttentionArgs& args TILESCOPE_HOST_SINK_PARAM(sink)) {
        multiply_by_cublas(products_of_heads<Config>(args), launch_stream());
        return ScalarKernel<CublasConfig>::launch<Config>(args TILESCOPE_SINK_ARG(sink));
    }
};

extern const CudaBuild cublas = entry<CublasKernel, cublas_configs, cublas_faults>();

}  // namespace tilescope::KERNEL_BUILD
