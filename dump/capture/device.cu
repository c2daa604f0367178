#include "dump/capture/device.cuh"

#include <mma.h>

#include "dump/hook/sink.h"

namespace tilescope {

namespace {

__global__ void fill(std::uint32_t* memory, std::size_t words) {
    const std::size_t step = std::size_t(gridDim.x) * blockDim.x;
    for (std::size_t i = std::size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < words; i += step) {
        memory[i] = unwritten_bits;
    }
}

// Not conversions: PyTorch's extension builder switches those of float16 off.
__device__ void set(float& to, float value) {
    to = value;
}
__device__ void set(__half& to, float value) {
    to = __float2half_rn(value);
}
__device__ float get(float value) {
    return value;
}
__device__ float get(__half value) {
    return __half2float(value);
}

/// Loads a matrix that holds row * 16 + column in each element, or row * 32 + column for 8 x 32: at most 512
/// of them, which float16 holds exactly.
template <int m, int n, class T>
__device__ void find_places(std::uint16_t* table, T* matrix) {
    for (int i = threadIdx.x; i < m * n; i += 32) set(matrix[i], float(i));
    __syncwarp();
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, m, n, 16, T> fragment;
    nvcuda::wmma::load_matrix_sync(fragment, matrix, n, nvcuda::wmma::mem_row_major);
    static_assert(fragment.num_elements == wmma_values);
    for (int value = 0; value < wmma_values; ++value) {
        const int element = int(get(fragment.x[value]));
        table[threadIdx.x * wmma_values + value] = std::uint16_t(element / n * 256 + element % n);
    }
    __syncwarp();
}

/// In the order of wmma_table_of().
__global__ void find_all_places(std::uint16_t* places) {
    constexpr int table = 32 * wmma_values;
    __shared__ alignas(32) float floats[256];
    __shared__ alignas(32) __half halves[256];
    find_places<16, 16>(places, floats);
    find_places<16, 16>(places + table, halves);
    find_places<32, 8>(places + 2 * table, floats);
    find_places<32, 8>(places + 3 * table, halves);
    find_places<8, 32>(places + 4 * table, floats);
    find_places<8, 32>(places + 5 * table, halves);
}

}  // namespace

cudaError_t fill_unwritten_async(std::uint32_t* memory, std::size_t words, cudaStream_t stream) {
    if (words == 0) return cudaSuccess;
    constexpr unsigned threads = 256;
    constexpr std::size_t most_blocks = 4096;
    const std::size_t blocks = (words + threads - 1) / threads;
    fill<<<unsigned(blocks < most_blocks ? blocks : most_blocks), threads, 0, stream>>>(memory, words);
    return cudaPeekAtLastError();
}

cudaError_t find_wmma_places(std::uint16_t* places, cudaStream_t stream) {
    find_all_places<<<1, 32, 0, stream>>>(places);
    return cudaPeekAtLastError();
}

}  // namespace tilescope
