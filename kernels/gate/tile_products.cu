#include "kernels/gate/tile_products.h"

#include "kernels/attention/cublas_library.h"
#include "kernels/attention/scalar_cuda.cuh"
#include "kernels/attention/wmma_body.cuh"
#include "kernels/run/device_arrays.cuh"

namespace tilescope {

namespace {

using namespace KERNEL_BUILD;

template <class Config>
__global__ void __launch_bounds__(Config::threads) scalar_tile(const AttentionArgs args, float* s) {
    extern __shared__ __align__(32) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<ScalarShared<Config>*>(shared_bytes);
    CudaBlock block;
    stage_k<Config>(TileProducts(), block, shared, args, 0, 0);
    stage_q<Config>(TileProducts(), block, shared, args);
    const int thread = int(threadIdx.x);
    Registers<Config::columns> products;
    products_of<Config>(TileProducts(), block, shared, args, 0, thread, products);
    float* const row = s + thread / Config::lanes * Config::block_n;
    for (int j = 0; j < Config::columns; ++j) row[thread % Config::lanes + j * Config::lanes] = products[j];
}

template <class Config>
__global__ void __launch_bounds__(Config::threads) wmma_tile_product(const AttentionArgs args, float* s) {
    extern __shared__ __align__(32) unsigned char shared_bytes[];
    auto& shared = *reinterpret_cast<WmmaShared<Config>*>(shared_bytes);
    const CudaBlock block;
    stage_rows<Config>(block, shared.q, static_cast<const Half*>(args.q), RowRange{0, Config::block_m},
                       Config::block_m);
    stage_rows<Config>(block, shared.k, static_cast<const Half*>(args.k), RowRange{0, Config::block_n},
                       Config::block_n);
    block.commit();
    block.wait<0>();
    block.sync();
    const int first_row = int(threadIdx.x) / 32 * Config::fragment;
    multiply_qk<Config>(shared, first_row);
    __syncwarp();
    for (int i = int(threadIdx.x) % 32; i < Config::fragment * Config::block_n; i += 32) {
        const int row = first_row + i / Config::block_n;
        const int column = i % Config::block_n;
        s[row * Config::block_n + column] = shared.s[row * Config::ld_s + column];
    }
}

template <class Config, class Kernel>
void launch_tile(Kernel kernel, std::size_t shared_bytes, const TileOperands& operands) {
    AttentionArgs args;
    args.q = operands.q;
    args.k = operands.k;
    args.batch = args.heads = args.heads_kv = 1;
    args.seqlen_q = Config::block_m;
    args.seqlen_kv = Config::block_n;
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared_bytes)),
               "asking for shared memory");
    kernel<<<1, Config::threads, shared_bytes, cudaStreamPerThread>>>(args, operands.s);
    check_cuda(cudaGetLastError(), "multiplying a tile");
}

template <int block_m, int block_n, int head_dim>
void multiply_by_scalar(const TileOperands& operands) {
    using Config = ScalarConfig<block_m, block_n, 1, head_dim>;
    launch_tile<Config>(scalar_tile<Config>, sizeof(ScalarShared<Config>), operands);
}

template <int block_m, int block_n, int head_dim>
void multiply_by_wmma(const TileOperands& operands) {
    using Config = WmmaConfig<block_m, block_n, head_dim>;
    launch_tile<Config>(wmma_tile_product<Config>, sizeof(WmmaShared<Config>), operands);
}

template <int block_m, int block_n, int head_dim>
void multiply_tile_by_cublas(const TileOperands& operands) {
    MatrixProducts product;
    product.a = operands.q;
    product.b = operands.k;
    product.c = operands.s;
    product.count = 1;
    product.a_rows = block_m;
    product.b_rows = product.ld = block_n;
    product.columns = product.depth = head_dim;
    product.pitch = block_n;
    multiply_by_cublas(product, cudaStreamPerThread);
}

constexpr TileProduct tile_products[] = {
    {"cublas", 64, 64, 64, multiply_tile_by_cublas<64, 64, 64>},
    {"wmma", 64, 64, 64, multiply_by_wmma<64, 64, 64>},
    {"scalar", 64, 64, 64, multiply_by_scalar<64, 64, 64>},
    {"cublas", 32, 64, 128, multiply_tile_by_cublas<32, 64, 128>},
    {"wmma", 32, 64, 128, multiply_by_wmma<32, 64, 128>},
    {"scalar", 32, 64, 128, multiply_by_scalar<32, 64, 128>},
};

}  // namespace

std::span<const TileProduct> all_tile_products() {
    return tile_products;
}

}  // namespace tilescope
