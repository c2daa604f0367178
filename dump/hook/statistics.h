#pragma once

// What hooks keep of a tile in SinkMode::statistics.

#include <cstdint>

#include "dump/hook/device.h"
#include "dump/hook/sink.h"

namespace tilescope {

/// One of a tile's elements, by its row and column.
struct HookPlace {
    int row;
    int col;
};

/// The calling thread's part of a tile's statistics.
class HookStatistics {
 public:
    std::uint32_t hash = 0;
    std::uint32_t written = 0;
    std::uint32_t nan = 0;
    std::uint32_t infinite = 0;
    std::uint32_t zero = 0;
    float sum = 0;
    float sum_of_squares = 0;

    /// The fast way, for values that are finite and not 0. If one was not, plain() is false afterwards: then
    /// all of the thread's values have to be added anew, with add_any().
    TILESCOPE_HOOK void add(float value) {
        add_bits(hook_bits(value));
        add_number(value, hook_bits(value));
    }
    TILESCOPE_HOOK bool plain() const {
        return sum_of_squares < hook_float_of(0x7f800000u) && low_bits_ != 0 && low_signed_ != lowest;
    }

    TILESCOPE_HOOK void add_any(float value) {
        const std::uint32_t bits = hook_bits(value);
        const std::uint32_t magnitude = bits & 0x7fffffffu;
        add_bits(bits);
        // -0 is compared as 0.
        if (magnitude < 0x7f800000u) add_number(value, magnitude == 0 ? 0 : bits);
        zero += magnitude == 0;
        nan += magnitude > 0x7f800000u;
        infinite += magnitude == 0x7f800000u;
    }

    /// Bits whose order as unsigned integers is that of the values: of a negative value all inverted, of
    /// another the sign alone. 0xffffffff and 0 where no value was finite.
    TILESCOPE_HOOK std::uint32_t least() const {
        return high_bits_ > 0x7fffffffu ? ~high_bits_ : low_bits_ | 0x80000000u;
    }
    TILESCOPE_HOOK std::uint32_t greatest() const {
        return high_signed_ < 0 ? ~low_bits_ : std::uint32_t(high_signed_) | 0x80000000u;
    }

 private:
    TILESCOPE_HOOK void add_bits(std::uint32_t bits) {
        hash = hash * 0x9e3779b1u + bits;
        ++written;
    }
    TILESCOPE_HOOK void add_number(float value, std::uint32_t bits) {
        low_bits_ = bits < low_bits_ ? bits : low_bits_;
        high_bits_ = bits > high_bits_ ? bits : high_bits_;
        const auto as_signed = std::int32_t(bits);
        low_signed_ = as_signed < low_signed_ ? as_signed : low_signed_;
        high_signed_ = as_signed > high_signed_ ? as_signed : high_signed_;
        sum += value;
        sum_of_squares = hook_multiply_add(value, value, sum_of_squares);
    }

    static constexpr std::int32_t lowest = -0x7fffffff - 1;  ///< -0
    // The extremes of the bits as unsigned and as signed integers: a GPU finds the extreme of three integers
    // in one instruction, and a 0 among the values shows in them.
    std::uint32_t low_bits_ = 0xffffffffu;
    std::uint32_t high_bits_ = 0;
    std::int32_t low_signed_ = 0x7fffffff;
    std::int32_t high_signed_ = lowest;
};

/// A hash of a thread's part and of the place of its first element. The finaliser of MurmurHash3:
/// neighbouring inputs give unrelated sums.
TILESCOPE_HOOK std::uint32_t hook_mix(std::uint32_t hash, HookPlace first) {
    std::uint32_t mixed = hash + (unsigned(first.row) * 0x9e3779b1u ^ unsigned(first.col));
    mixed = (mixed ^ mixed >> 16) * 0x85ebca6bu;
    mixed = (mixed ^ mixed >> 13) * 0xc2b2ae35u;
    return mixed ^ mixed >> 16;
}

/// A thread's sum in multiples of statistics_unit.
TILESCOPE_HOOK long long hook_units(float sum) {
    constexpr float most = float(1 << 28);  // see HookTogether::sum
    return (long long)(hook_smaller(hook_larger(sum, -most), most) * float(1 << 24));
}

/// Adds a thread's part; `first` is the place of its first element.
TILESCOPE_HOOK void hook_merge(TileStatistics* into, const HookStatistics& part, HookPlace first) {
    std::uint32_t hash = hook_mix(part.hash, first);
    std::uint32_t written = part.written;
    std::uint32_t least = part.least();
    std::uint32_t greatest = part.greatest();
    long long sum = hook_units(part.sum);
    long long sum_of_squares = hook_units(part.sum_of_squares);
    const HookTogether together(into);
    if (together.several()) {
        together.sum(hash);
        together.sum(written);
        together.least(least);
        together.greatest(greatest);
        together.sum(sum);
        together.sum(sum_of_squares);
    }
    if (together.adds()) {
        hook_count(&into->hash, hash);
        hook_count(&into->written, written);
        hook_lower(&into->least, least);
        hook_raise(&into->greatest, greatest);
        hook_count(&into->sum, sum);
        hook_count(&into->sum_of_squares, sum_of_squares);
    }
    // Few threads have any.
    if ((part.zero | part.nan | part.infinite) == 0) return;
    hook_count(&into->zero, part.zero);
    hook_count(&into->nan, part.nan);
    hook_count(&into->infinite, part.infinite);
}

/// Merges the statistics of the values that `add_all` hands to a function of a value; `first` tells this
/// thread's part from those of others.
template <class AddAll>
TILESCOPE_HOOK void hook_keep_statistics(TileStatistics* into, const HookPlace& first,
                                         const AddAll& add_all) {
    HookStatistics part;
    add_all([&](float value) { part.add(value); });
    if (!part.plain()) {
        part = HookStatistics();
        add_all([&](float value) { part.add_any(value); });
    }
    if (part.written != 0) hook_merge(into, part, first);
}

}  // namespace tilescope
