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

/// Where an element lies in a tile of swizzled rows of `row_bytes`, then the same rows of what follows.
template <int row_bytes, class Element>
__host__ __device__ int boxed_place(int rows, int row, int col) {
    constexpr int in_row = row_bytes / int(sizeof(Element));
    constexpr int in_chunk = chunk_bytes / int(sizeof(Element));
    const int chunk = swizzled_chunk<row_bytes>(row, col % in_row / in_chunk);
    return (col / in_row * rows + row) * in_row + chunk * in_chunk + col % in_chunk;
}

template <class Config>
struct BoxedShare : BoxedPlaces<Config> {
    using Element = typename Config::Element;
    const Element* tile;

    __host__ __device__ ElementChunk<Element> run_at(int i) const {
        const HookPlace place = (*this)(i);
        return chunk_at(tile + boxed_place<Config::row_bytes, Element>(this->rows, place.row, place.col));
    }
    __host__ __device__ Element operator[](int i) const { return run_at(i - i % this->run)[i % this->run]; }
};

/// Four neighbours in a row of V, which are of four rows where it lies along the keys.
struct FourCodes {
    E4m3 codes[4];
    __host__ __device__ E4m3 operator[](int i) const { return codes[i]; }
};

/// A thread's share of a tile of V that lies along the keys: every unit that is `threads` further, of four words below each
/// other, which are four keys of four features. A warp has 32 features of 16 keys: its words lie in other banks than most,
/// and what it stores is whole in 128 bytes.
template <class Config>
struct AlongKeysShare {
    static constexpr int run = 4;
    static constexpr int unit = 16;
    const E4m3* tile;
    int thread;
    int threads;

    __host__ __device__ int size() const {
        constexpr int units = Config::block_n * Config::head_dim / unit;
        return (units + threads - 1 - thread) / threads * unit;
    }
    __host__ __device__ HookPlace operator()(int i) const {
        return {key_along_keys(first_key_place(i) + i % unit / run), first_feature(i) + i % run};
    }
    __host__ __device__ FourCodes run_at(int i) const {
        FourCodes found;
        KERNEL_UNROLL
        for (int feature = 0; feature < run; ++feature) {
            // The whole word, of which the other codes are other keys.
            const int place = boxed_place<Config::v_row_bytes, E4m3>(
                Config::head_dim, first_feature(i) + feature, first_key_place(i));
            const auto word = *reinterpret_cast<const std::uint32_t*>(tile + place);
            found.codes[feature] = {std::uint8_t(word >> i % unit / run * 8)};
        }
        return found;
    }
    __host__ __device__ E4m3 operator[](int i) const { return run_at(i - i % run)[i % run]; }

 private:
    static constexpr int features_of_warp = 32;
    __host__ __device__ int unit_of(int i) const { return i / unit * threads + thread; }
    __host__ __device__ int first_feature(int i) const {
        return unit_of(i) / 32 % (Config::head_dim / features_of_warp) * features_of_warp +
               unit_of(i) / 4 % 8 * 4;
    }
    __host__ __device__ int first_key_place(int i) const {
        return unit_of(i) / 32 / (Config::head_dim / features_of_warp) * 16 + unit_of(i) % 4 * 4;
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
    if constexpr (Config::is_fp8) {
        return AlongKeysShare<Config>{reinterpret_cast<const E4m3*>(tile), thread,
                                      Config::consumers * Config::group};
    } else {
        return boxed<Config>(tile, Config::block_n, thread);
    }
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
