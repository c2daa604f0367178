#include "dump/poison.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr int fill_threads = 1024;

void require(cudaError_t status, const char* doing) {
    if (status == cudaSuccess) return;
    throw Error(std::string(cudaGetErrorString(status)) + " while " + doing, "poisoning shared memory",
                "check the GPU with nvidia-smi");
}

__device__ unsigned multiprocessor() {
    unsigned id;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
    return id;
}

__device__ unsigned multiprocessor_numbers() {
    unsigned count;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(count));
    return count;
}

__global__ void count_multiprocessor_numbers(unsigned* count) {
    *count = multiprocessor_numbers();
}

/// Each block takes all shared memory of a multiprocessor, so that two never share one, and stays until every
/// block has come, so that none takes the place of another. Needs a cooperative launch: all blocks resident.
__global__ void fill_shared_memory(std::uint32_t word, unsigned words, unsigned* arrived, unsigned* filled) {
    extern __shared__ std::uint32_t poisoned[];
    volatile std::uint32_t* const shared = poisoned;
    for (unsigned i = threadIdx.x; i < words; i += blockDim.x) shared[i] = word;
    __syncthreads();
    if (threadIdx.x != 0) return;
    filled[multiprocessor()] = 1;
    __threadfence();
    atomicAdd(arrived, 1u);
    while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) __nanosleep(100);
}

struct Free {
    void operator()(unsigned* memory) const { cudaFree(memory); }
};
using DeviceWords = std::unique_ptr<unsigned, Free>;

DeviceWords zeros(std::size_t count, cudaStream_t stream) {
    void* memory = nullptr;
    require(cudaMalloc(&memory, count * sizeof(unsigned)), "allocating its counters");
    DeviceWords words(static_cast<unsigned*>(memory));
    require(cudaMemsetAsync(memory, 0, count * sizeof(unsigned), stream), "clearing its counters");
    return words;
}

std::vector<unsigned> to_host(const DeviceWords& words, std::size_t count, cudaStream_t stream) {
    std::vector<unsigned> copy(count);
    require(
        cudaMemcpyAsync(copy.data(), words.get(), count * sizeof(unsigned), cudaMemcpyDeviceToHost, stream),
        "reading its counters");
    require(cudaStreamSynchronize(stream), "filling it");
    return copy;
}

int attribute(cudaDeviceAttr which) {
    int device = 0;
    int value = 0;
    require(cudaGetDevice(&device), "looking for a GPU");
    require(cudaDeviceGetAttribute(&value, which, device), "asking for the GPU's properties");
    return value;
}

/// %smid is below this; the numbers may have gaps.
std::size_t largest_multiprocessor_number(cudaStream_t stream) {
    const DeviceWords count = zeros(1, stream);
    count_multiprocessor_numbers<<<1, 1, 0, stream>>>(count.get());
    require(cudaGetLastError(), "counting the multiprocessors");
    return to_host(count, 1, stream).front();
}

}  // namespace

int poison_shared_memory(std::uint32_t word, CUstream_st* stream) {
    const int multiprocessors = attribute(cudaDevAttrMultiProcessorCount);
    const int bytes = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    require(cudaFuncSetAttribute(fill_shared_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
            "asking for all of it");
    const std::size_t numbers = largest_multiprocessor_number(stream);
    const DeviceWords arrived = zeros(1, stream);
    const DeviceWords filled = zeros(numbers, stream);

    unsigned words = unsigned(bytes) / sizeof(word);
    unsigned* arrived_at = arrived.get();
    unsigned* filled_at = filled.get();
    void* arguments[] = {&word, &words, &arrived_at, &filled_at};
    require(cudaLaunchCooperativeKernel(fill_shared_memory, dim3(unsigned(multiprocessors)),
                                        dim3(fill_threads), arguments, std::size_t(bytes), stream),
            "filling it");
    const std::vector<unsigned> seen = to_host(filled, numbers, stream);
    const auto reached = std::ranges::count(seen, 1u);
    if (reached != multiprocessors) {
        throw Error(std::to_string(reached) + " of " + std::to_string(multiprocessors) +
                        " multiprocessors were reached",
                    "poisoning shared memory", "let nothing else run on the GPU");
    }
    return multiprocessors;
}

}  // namespace tilescope
