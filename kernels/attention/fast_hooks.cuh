#pragma once

// What the hooks of the fast kernel read: tiles in swizzled shared memory, and registers that hold two
// elements.

#include <cstdint>

#include "dump/hook/write.h"
#include "kernels/attention/fast_config.cuh"

namespace tilescope {

/// A chunk of shared memory, which is read at once.
template <class Element>
struct alignas(chunk_bytes) ElementChunk {
    Element elements[chunk_bytes / sizeof(Element)];
    __host__ __device__ Element operator[](int i) const { return elements[i]; }
};
template <class Element>
__host__ __device__ ElementChunk<Element> chunk_at(const Element* first) {
    return *reinterpret_cast<const ElementChunk<Element>*>(first);
}

/// A thread's share of a tile of `rows` rows in swizzled shared memory, every `threads`-th chunk from
/// `thread` on: its elements, and their places in the tile.
template <class Config>
struct SwizzledShare {
    static constexpr int run = chunk_elements;
    const typename Config::Element* tile;
    int rows;
    int thread;
    int threads;

    __host__ __device__ int size() const { return rows * Config::head_dim / threads; }
    __host__ __device__ HookPlace operator()(int i) const {
        const int chunk = i / chunk_elements * threads + thread;
        return {chunk / Config::chunks, chunk % Config::chunks * chunk_elements + i % chunk_elements};
    }
    __host__ __device__ ElementChunk<typename Config::Element> run_at(int i) const {
        const HookPlace place = (*this)(i);
        const int chunk = place.col / chunk_elements ^ place.row % swizzle_rows;
        return chunk_at(tile + place.row * Config::head_dim + chunk * chunk_elements);
    }
    __host__ __device__ typename Config::Element operator[](int i) const {
        return run_at(i - i % run)[i % run];
    }
};

template <class Config>
__host__ __device__ SwizzledShare<Config> swizzled(const unsigned char* tile, int rows, int thread,
                                                   int threads = Config::group) {
    return {reinterpret_cast<const typename Config::Element*>(tile), rows, thread, threads};
}

/// The elements of registers that hold two each, the first one in the lower half.
template <class Config, int registers>
struct Pairs {
    static constexpr int size = registers * 2;
    const std::uint32_t* pairs;

    __host__ __device__ typename Config::Element operator[](int i) const {
        const auto bits = std::uint16_t(pairs[i / 2] >> (i % 2 * 16));
        return *reinterpret_cast<const typename Config::Element*>(&bits);
    }
};
template <class Config, int registers>
__host__ __device__ Pairs<Config, registers> pairs_of(const std::uint32_t (&pairs)[registers]) {
    return {pairs};
}
template <class Config, int depths>
__host__ __device__ Pairs<Config, depths * 4> pairs_of(const std::uint32_t (&pairs)[depths][4]) {
    return {pairs[0]};
}
template <class Config, int rows, int depths>
__host__ __device__ Pairs<Config, rows * depths * 4> pairs_of(const std::uint32_t (&pairs)[rows][depths][4]) {
    return {pairs[0][0]};
}

}  // namespace tilescope
