#pragma once

// What the hooks of the warp-specialised fast kernel read besides: tiles as tensor maps leave them in shared memory,
// and P of e4m3.

#include "kernels/attention/fast_hooks.cuh"
#include "kernels/attention/fast_hopper_config.cuh"

namespace tilescope {

/// A thread's share of a tile with `rows` rows of features: every chunk that is `threads` further, from `thread` on.
template <class Config>
struct BoxedPlaces {
    static constexpr int run = chunk_bytes / Config::element_bytes;
    int rows;
    int thread;
    int threads;

    /// Not every thread has as many chunks.
    __host__ __device__ int size() const {
        const int chunks = rows * Config::head_dim / run;
        return (chunks + threads - 1 - thread) / threads * run;
    }
    __host__ __device__ HookPlace operator()(int i) const {
        constexpr int chunks = Config::head_dim / run;
        const int chunk = i / run * threads + thread;
        return {chunk / chunks, chunk % chunks * run + i % run};
    }
};

/// Of a tile of swizzled rows of `row_bytes`, then the same rows of what follows.
template <int row_bytes, class Element>
__host__ __device__ Element boxed_element(const Element* tile, int rows, int row, int col) {
    constexpr int in_row = row_bytes / int(sizeof(Element));
    constexpr int in_chunk = chunk_bytes / int(sizeof(Element));
    const int chunk = swizzled_chunk<row_bytes>(row, col % in_row / in_chunk);
    return tile[(col / in_row * rows + row) * in_row + chunk * in_chunk + col % in_chunk];
}

template <class Config>
struct BoxedShare : BoxedPlaces<Config> {
    const typename Config::Element* tile;

    __host__ __device__ typename Config::Element operator[](int i) const {
        const HookPlace place = (*this)(i);
        return boxed_element<Config::row_bytes>(tile, this->rows, place.row, place.col);
    }
};

/// The same of V that lies along the keys.
template <class Config>
struct AlongKeysShare : BoxedPlaces<Config> {
    const typename Config::Element* tile;

    __host__ __device__ typename Config::Element operator[](int i) const {
        const HookPlace place = (*this)(i);
        return boxed_element<Config::v_row_bytes>(tile, Config::head_dim, place.col,
                                                  place_along_keys(place.row));
    }
};

template <class Config>
__host__ __device__ BoxedPlaces<Config> boxed_places(int rows, int thread) {
    return {rows, thread, Config::consumers * Config::group};
}
template <class Config>
__host__ __device__ BoxedShare<Config> boxed(const unsigned char* tile, int rows, int thread) {
    return {boxed_places<Config>(rows, thread), reinterpret_cast<const typename Config::Element*>(tile)};
}
template <class Config>
__host__ __device__ auto staged_v(const unsigned char* tile, int thread) {
    using Share = std::conditional_t<Config::is_fp8, AlongKeysShare<Config>, BoxedShare<Config>>;
    return Share{boxed_places<Config>(Config::block_n, thread),
                 reinterpret_cast<const typename Config::Element*>(tile)};
}

/// The elements of P in the order of an accumulator, of registers that hold four.
template <class Config>
struct PackedCodes {
    static constexpr int size = Config::scores;
    const std::uint32_t* codes;

    __host__ __device__ E4m3 operator[](int i) const {
        const int which = i / 16 * 4 + i / 8 % 2 * 2 + i / 2 % 2;
        return {std::uint8_t(codes[which] >> (i / 4 % 2 * 16 + i % 2 * 8))};
    }
};

template <class Config>
__host__ __device__ auto packed_p(const std::uint32_t (&p)[Config::key_depths][4]) {
    if constexpr (Config::is_fp8) {
        return PackedCodes<Config>{p[0]};
    } else {
        return pairs_of<Config>(p);
    }
}

}  // namespace tilescope
