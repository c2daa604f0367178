#pragma once

// What hooks need of the machine they run on: the same names on the GPU and on the CPU.

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TILESCOPE_HOOK __host__ __device__ __forceinline__
// Beside the kernel, once, and slower: there a sink's fields are read through a pointer.
#define TILESCOPE_HOOK_APART inline __host__ __device__ __noinline__
// Without __grid_constant__ every thread makes a copy of a kernel parameter whose address is taken.
#define TILESCOPE_GRID_CONSTANT __grid_constant__
#define TILESCOPE_HOOK_UNROLL _Pragma("unroll")
#define TILESCOPE_HOOK_ROLLED _Pragma("unroll 1")
#else
#define TILESCOPE_HOOK inline
#define TILESCOPE_HOOK_APART inline
#define TILESCOPE_GRID_CONSTANT
#define TILESCOPE_HOOK_UNROLL
#define TILESCOPE_HOOK_ROLLED
#endif

namespace tilescope {

TILESCOPE_HOOK std::uint32_t hook_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    std::uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits;
#endif
}

TILESCOPE_HOOK float hook_float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    float value;
    __builtin_memcpy(&value, &bits, sizeof(value));
    return value;
#endif
}

/// Reads a word once, which other threads may write meanwhile; the GPU's L1 cache may hold an older one.
TILESCOPE_HOOK std::uint32_t hook_get(const std::uint32_t* word) {
#ifdef __CUDA_ARCH__
    std::uint32_t bits;
    asm volatile("ld.ca.u32 %0, [%1];" : "=r"(bits) : "l"(word) : "memory");
    return bits;
#else
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

TILESCOPE_HOOK void hook_set(std::uint32_t* word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    *word = bits;
#else
    __atomic_store_n(word, bits, __ATOMIC_RELAXED);
#endif
}

/// Stores two neighbouring words; the address is a multiple of 8.
TILESCOPE_HOOK void hook_set_two(std::uint32_t* words, std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<uint2*>(words) = make_uint2(a, b);
#else
    hook_set(words, a);
    hook_set(words + 1, b);
#endif
}

/// Stores four neighbouring words; the address is a multiple of 16.
TILESCOPE_HOOK void hook_set_four(std::uint32_t* words, std::uint32_t a, std::uint32_t b, std::uint32_t c,
                                  std::uint32_t d) {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<uint4*>(words) = make_uint4(a, b, c, d);
#else
    hook_set(words, a);
    hook_set(words + 1, b);
    hook_set(words + 2, c);
    hook_set(words + 3, d);
#endif
}

/// Stores `bits` and returns what was there.
TILESCOPE_HOOK std::uint32_t hook_exchange(std::uint32_t* word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return atomicExch(word, bits);
#else
    return __atomic_exchange_n(word, bits, __ATOMIC_RELAXED);
#endif
}

/// Stores `bits` where `expected` is, and returns what was there.
TILESCOPE_HOOK std::uint32_t hook_compare_exchange(std::uint32_t* word, std::uint32_t expected,
                                                   std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return atomicCAS(word, expected, bits);
#else
    __atomic_compare_exchange_n(word, &expected, bits, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
#endif
}

#ifndef __CUDA_ARCH__
/// Index in its thread block of the thread that the calling host thread plays, below 1024.
inline thread_local int hook_cpu_thread = 0;
#endif

/// Linear index of the calling thread in its thread block.
TILESCOPE_HOOK std::uint32_t hook_thread() {
#ifdef __CUDA_ARCH__
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
#else
    return std::uint32_t(hook_cpu_thread);
#endif
}

/// Lets the calling warp wait, every fourth time, for 32 ns to 1 ms: how long follows from `seed`, `place` and the warp's
/// number in the launch. Warps that no barrier holds together drift apart, otherwise for each seed. Nothing on the CPU.
TILESCOPE_HOOK void hook_let_warp_wait([[maybe_unused]] std::uint32_t seed,
                                       [[maybe_unused]] std::uint32_t place) {
#ifdef __CUDA_ARCH__
    const std::uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    std::uint32_t bits =
        seed * 0x9e3779b9u ^ place * 0x85ebca6bu ^ (block * 32 + hook_thread() / 32) * 0xc2b2ae35u;
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    bits ^= bits >> 16;
    if (bits % 4 == 0) __nanosleep(32u << (bits >> 2) % 16);
#endif
}

/// The smaller and the larger of two numbers, or the one that is no NaN.
TILESCOPE_HOOK float hook_smaller(float a, float b) {
#ifdef __CUDA_ARCH__
    return fminf(a, b);
#else
    return b < a || a != a ? b : a;
#endif
}
TILESCOPE_HOOK float hook_larger(float a, float b) {
#ifdef __CUDA_ARCH__
    return fmaxf(a, b);
#else
    return b > a || a != a ? b : a;
#endif
}

/// a * b + c, rounded once.
TILESCOPE_HOOK float hook_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}

/// log2 of a power of two.
TILESCOPE_HOOK int hook_log2(int power) {
#ifdef __CUDA_ARCH__
    return __popc(power - 1);
#else
    return __builtin_popcount(unsigned(power - 1));
#endif
}

/// Adds and returns what was there.
TILESCOPE_HOOK unsigned long long hook_count_from(unsigned long long* counter, unsigned long long count) {
#ifdef __CUDA_ARCH__
    return atomicAdd(counter, count);
#else
    return __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
#endif
}

/// Adds to a counter in global memory and waits for no answer. Not atomicAdd: where the compiler does not
/// know that the address is no shared memory, that waits; and it adds up over the warp what was added up
/// before.
TILESCOPE_HOOK void hook_count(std::uint32_t* counter, std::uint32_t count) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.add.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(counter)), "r"(count));
#else
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
#endif
}
TILESCOPE_HOOK void hook_count(long long* counter, long long count) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.add.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(counter)), "l"(count));
#else
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
#endif
}

/// Threads of a warp that happen to be together, and work on the same record in memory: they add up among
/// themselves before one of them adds to the record, and nobody waits for a thread that is elsewhere. Where
/// some work on another record, and on the CPU, each thread is alone.
class HookTogether {
 public:
    TILESCOPE_HOOK explicit HookTogether([[maybe_unused]] const void* record) {
#ifdef __CUDA_ARCH__
        mask_ = __activemask();
        const int last = 31 - __clz(int(mask_));
        const auto own = (unsigned long long)(record);
        several_ = __all_sync(mask_, __shfl_sync(mask_, own, last) == own) != 0;
        int lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        adds_ = !several_ || lane == last;
#endif
    }

    /// Whether threads have to add up before one of them adds to the record.
    TILESCOPE_HOOK bool several() const {
        return several_;
    }
    /// Whether the calling thread is one that adds to the record.
    TILESCOPE_HOOK bool adds() const {
        return adds_;
    }

#ifdef __CUDA_ARCH__
    TILESCOPE_HOOK void sum(std::uint32_t& value) const {
        value = __reduce_add_sync(mask_, value);
    }
    TILESCOPE_HOOK void least(std::uint32_t& value) const {
        value = __reduce_min_sync(mask_, value);
    }
    TILESCOPE_HOOK void greatest(std::uint32_t& value) const {
        value = __reduce_max_sync(mask_, value);
    }
    /// In pieces of 27 bits, whose sums over a warp do not overflow where the values are within +-2^52.
    TILESCOPE_HOOK void sum(long long& value) const {
        const std::uint32_t low = __reduce_add_sync(mask_, std::uint32_t(value) & 0x7ffffffu);
        const int high = __reduce_add_sync(mask_, int(value >> 27));
        value = (long long)(high) * (1ll << 27) + low;
    }

 private:
    unsigned mask_;
    bool several_;
    bool adds_;
#else
    template <class Number>
    void sum(Number&) const {}
    void least(std::uint32_t&) const {}
    void greatest(std::uint32_t&) const {}

 private:
    bool several_ = false;
    bool adds_ = true;
#endif
};

/// Whether the copies of a value in `copies` neighbouring lanes, a power of two, differ. All lanes of the warp are there.
template <int copies>
TILESCOPE_HOOK bool hook_copies_differ([[maybe_unused]] std::uint32_t bits) {
    bool differ = false;
#ifdef __CUDA_ARCH__
    TILESCOPE_HOOK_UNROLL
    for (int distance = 1; distance < copies; distance *= 2) {
        // First of all: a lane that left out the exchange would leave the others waiting.
        const std::uint32_t other = __shfl_xor_sync(0xffffffffu, bits, distance);
        differ = differ || other != bits;
    }
#endif
    return differ;
}

/// Whether all lanes of the warp are there, and it is so in each of them. Never on the CPU.
TILESCOPE_HOOK bool hook_whole_warp([[maybe_unused]] bool so) {
#ifdef __CUDA_ARCH__
    return __activemask() == 0xffffffffu && __all_sync(0xffffffffu, so) != 0;
#else
    return false;
#endif
}

#ifndef __CUDA_ARCH__
/// Replaces the value by change(value), whoever else does at the same time.
template <class Value, class Change>
void hook_change(Value* at, Change change) {
    Value before;
    __atomic_load(at, &before, __ATOMIC_RELAXED);
    Value after = change(before);
    while (!__atomic_compare_exchange(at, &before, &after, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        after = change(before);
    }
}
#endif

TILESCOPE_HOOK void hook_lower(std::uint32_t* to, std::uint32_t value) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.min.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value));
#else
    hook_change(to, [=](std::uint32_t before) { return value < before ? value : before; });
#endif
}
TILESCOPE_HOOK void hook_raise(std::uint32_t* to, std::uint32_t value) {
#ifdef __CUDA_ARCH__
    asm volatile("red.global.max.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value));
#else
    hook_change(to, [=](std::uint32_t before) { return value > before ? value : before; });
#endif
}

}  // namespace tilescope
