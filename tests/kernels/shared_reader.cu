#include "tests/kernels/shared_reader.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace tilescope::testing {

namespace {

constexpr unsigned blocks_per_multiprocessor = 16;
constexpr std::size_t most_numbers = 4096;  ///< of multiprocessors

struct Counters {
    unsigned long long words;
    unsigned long long others;
    unsigned ran_on[most_numbers];
};

void require(cudaError_t status) {
    if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

int attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    require(cudaGetDevice(&device));
    require(cudaDeviceGetAttribute(&value, which, device));
    return value;
}

__global__ void read_words(std::uint32_t expected, unsigned words, Counters* counters) {
    extern __shared__ std::uint32_t never_written[];
    const volatile std::uint32_t* const shared = never_written;
    unsigned others = 0;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) others += shared[i] != expected;
    atomicAdd(&counters->others, static_cast<unsigned long long>(others));
    if (threadIdx.x != 0) return;
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    atomicAdd(&counters->words, static_cast<unsigned long long>(words));
    if (id < most_numbers) atomicExch(&counters->ran_on[id], 1u);
    __nanosleep(20000);  // long enough for blocks to reach every multiprocessor
}

}  // namespace

std::size_t multiprocessor_count() {
    return std::size_t(attribute(cudaDevAttrMultiProcessorCount));
}

std::size_t largest_shared_memory() {
    return std::size_t(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
}

SharedCensus read_shared_memory(std::uint32_t expected, std::size_t bytes) {
    Counters* on_device = nullptr;
    require(cudaMalloc(&on_device, sizeof(Counters)));
    require(cudaMemset(on_device, 0, sizeof(Counters)));
    require(cudaFuncSetAttribute(read_words, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    const unsigned blocks = blocks_per_multiprocessor * unsigned(multiprocessor_count());
    read_words<<<blocks, 128, bytes>>>(expected, unsigned(bytes / sizeof(expected)), on_device);
    require(cudaGetLastError());
    std::vector<Counters> counters(1);
    require(cudaMemcpy(counters.data(), on_device, sizeof(Counters), cudaMemcpyDeviceToHost));
    require(cudaFree(on_device));
    const auto& ran_on = counters.front().ran_on;
    return {std::size_t(std::count(std::begin(ran_on), std::end(ran_on), 1u)), counters.front().words,
            counters.front().others};
}

}  // namespace tilescope::testing
