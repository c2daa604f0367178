#pragma once

// What hooks need of the machine they run on: the same names on the GPU and on the CPU.

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TILESCOPE_HOOK __host__ __device__ __forceinline__
// Without it every thread copies a parameter whose address is taken.
#define TILESCOPE_GRID_CONSTANT __grid_constant__
#define TILESCOPE_HOOK_UNROLL _Pragma("unroll")
#define TILESCOPE_HOOK_ROLLED _Pragma("unroll 1")
#else
#define TILESCOPE_HOOK inline
#define TILESCOPE_GRID_CONSTANT
#define TILESCOPE_HOOK_UNROLL
#define TILESCOPE_HOOK_ROLLED
#endif

namespace tilescope {

TILESCOPE_HOOK std::uint32_t hook_bits(float value) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(value);
#else
    return __builtin_bit_cast(std::uint32_t, value);
#endif
}

TILESCOPE_HOOK float hook_float_of(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return __builtin_bit_cast(float, bits);
#endif
}

TILESCOPE_HOOK void hook_set(std::uint32_t* word, std::uint32_t bits) {
#ifdef __CUDA_ARCH__
    *word = bits;
#else
    __atomic_store_n(word, bits, __ATOMIC_RELAXED);
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

template <class Counter>
TILESCOPE_HOOK void hook_count(Counter* counter, Counter count) {
#ifdef __CUDA_ARCH__
    atomicAdd(counter, count);
#else
    __atomic_fetch_add(counter, count, __ATOMIC_RELAXED);
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

/// Adds the calling thread's numbers to a record in memory. Threads of a warp that happen to be together, and
/// add to the same record, first add up among themselves: nobody waits for a thread that is elsewhere.
class HookMerge {
 public:
    TILESCOPE_HOOK explicit HookMerge([[maybe_unused]] const void* record) {
#ifdef __CUDA_ARCH__
        // Not match.any, which takes longer than all that follows: those whose record is not that of the
        // first thread add alone.
        const unsigned active = __activemask();
        unsigned lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        const auto own = (unsigned long long)(record);
        const bool same = __shfl_sync(active, own, __ffs(int(active)) - 1) == own;
        const unsigned all = __ballot_sync(active, same);
        together_ = same ? all : 1u << lane;
        leads_ = (together_ & ((1u << lane) - 1)) == 0;
#endif
    }

#ifdef __CUDA_ARCH__
    TILESCOPE_HOOK void add(std::uint32_t* to, std::uint32_t value) {
        const std::uint32_t all = __reduce_add_sync(together_, value);
        if (leads_ && all != 0) atomicAdd(to, all);
    }
    /// Whether the number of any of them is not 0.
    TILESCOPE_HOOK bool any(std::uint32_t value) const { return __any_sync(together_, value != 0) != 0; }
    TILESCOPE_HOOK void lower(std::uint32_t* to, std::uint32_t value) {
        const std::uint32_t all = __reduce_min_sync(together_, value);
        if (leads_) atomicMin(to, all);
    }
    TILESCOPE_HOOK void raise(std::uint32_t* to, std::uint32_t value) {
        const std::uint32_t all = __reduce_max_sync(together_, value);
        if (leads_) atomicMax(to, all);
    }
    /// In pieces of 21 bits, whose sums over a warp do not overflow.
    TILESCOPE_HOOK void add(long long* to, long long value) {
        const std::uint32_t low = __reduce_add_sync(together_, std::uint32_t(value & 0x1fffff));
        const std::uint32_t middle = __reduce_add_sync(together_, std::uint32_t(value >> 21 & 0x1fffff));
        const int high = __reduce_add_sync(together_, int(value >> 42));
        const long long all = (long long)(high) * (1ll << 42) + ((long long)(middle) << 21) + low;
        if (leads_ && all != 0)
            atomicAdd(reinterpret_cast<unsigned long long*>(to), (unsigned long long)(all));
    }

 private:
    unsigned together_;
    bool leads_;
#else
    template <class Number>
    void add(Number* to, Number value) {
        hook_change(to, [=](Number before) { return Number(before + value); });
    }
    bool any(std::uint32_t value) const { return value != 0; }
    void lower(std::uint32_t* to, std::uint32_t value) {
        hook_change(to, [=](std::uint32_t before) { return value < before ? value : before; });
    }
    void raise(std::uint32_t* to, std::uint32_t value) {
        hook_change(to, [=](std::uint32_t before) { return value > before ? value : before; });
    }
#endif
};

}  // namespace tilescope
