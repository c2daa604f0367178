#include "tests/oracle/float_sums.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "dump/schema/dtype.h"

namespace tilescope::test {

namespace {

/// 2^exponent, of a normal number.
double power_of_two(int exponent) {
    return std::bit_cast<double>(std::uint64_t(exponent + 1023) << 52);
}

/// `value` cut off towards zero after the bit 2^last_bit.
double cut(double value, int last_bit) {
    return std::trunc(value * power_of_two(-last_bit)) * power_of_two(last_bit);
}

/// What a tensor core does with a group of terms.
struct TensorCoreKind {
    std::size_t group;
    int bits;                           ///< kept after the leading one of the largest term
    Dtype sum = Dtype::f32;             ///< float32 sums are cut off, float16 sums rounded
    float (*operand)(float) = nullptr;  ///< what it makes of an operand; null: takes it as it is
};

/// 11 bits of a float32, the rest rounded away from zero at a half, as cvt.rna.tf32 does.
float tf32_rounded(float value) {
    return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000u) & ~0x1fffu);
}

float tf32_cut(float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~0x1fffu);
}

/// One step: the exact products and the accumulator are aligned to the largest exponent, cut off, and added
/// exactly.
float tensor_core_step(const TensorCoreKind& kind, float accumulator, std::span<const double> products) {
    double largest = std::abs(double(accumulator));
    for (const double product : products) largest = std::max(largest, std::abs(product));
    if (largest == 0 || !std::isfinite(largest)) {
        double sum = accumulator;
        for (const double product : products) sum += product;
        return float(sum);
    }
    const int last_bit = std::ilogb(largest) - kind.bits;
    double sum = cut(accumulator, last_bit);
    for (const double product : products) sum += cut(product, last_bit);
    if (sum == 0 || !std::isfinite(sum)) return float(sum);
    return kind.sum == Dtype::f16 ? to_half(sum) : float(cut(sum, std::max(std::ilogb(sum) - 23, -149)));
}

float tensor_core_sum(const TensorCoreKind& kind, float start, std::span<const float> a, const float* b,
                      std::int64_t stride) {
    const auto operand = [&](float value) {
        return double(kind.operand != nullptr ? kind.operand(value) : value);
    };
    std::array<double, 16> products;
    float sum = start;
    for (std::size_t first = 0; first < a.size(); first += kind.group) {
        const std::size_t count = std::min(kind.group, a.size() - first);
        for (std::size_t i = 0; i < count; ++i)
            products[i] = operand(a[first + i]) * operand(b[std::int64_t(first + i) * stride]);
        sum = tensor_core_step(kind, sum, std::span(products).first(count));
    }
    return sum;
}

}  // namespace

Accumulation accumulation_of(Sum sum) {
    switch (sum) {
        case Sum::sequential:
        case Sum::reversed:
        case Sum::rounded_products:
        case Sum::pairwise:
            return Accumulation::fma_f32;
        case Sum::truncating_4:
        case Sum::truncating_8:
        case Sum::truncating_16:
        case Sum::truncating_16_guarded:
        case Sum::truncating_8_guarded:
            return Accumulation::tensor_core_f32;
        case Sum::fp8:
            return Accumulation::tensor_core_fp8;
        case Sum::tf32_rounded:
        case Sum::tf32_cut:
            return Accumulation::tensor_core_tf32;
        case Sum::half_fma:
            return Accumulation::fma_f16;
        case Sum::half_tensor_core:
            return Accumulation::tensor_core_f16;
    }
    return Accumulation::fma_f32;
}

float to_half(double value) {
    return decode(Dtype::f16, encode(Dtype::f16, value));
}

float sum_of_tree(std::span<const float> values) {
    if (values.empty()) return 0;
    if (values.size() == 1) return values[0];
    const std::size_t half = values.size() / 2;
    return sum_of_tree(values.first(half)) + sum_of_tree(values.subspan(half));
}

float sum_of_products(Sum how, float start, std::span<const float> a, const float* b, std::int64_t stride) {
    const auto term = [&](std::size_t i) { return b[std::int64_t(i) * stride]; };
    float sum = start;
    std::vector<float> pairs;
    switch (how) {
        case Sum::sequential:
            for (std::size_t i = 0; i < a.size(); ++i) sum = std::fma(a[i], term(i), sum);
            return sum;
        case Sum::reversed:
            for (std::size_t i = a.size(); i-- > 0;) sum = std::fma(a[i], term(i), sum);
            return sum;
        case Sum::rounded_products:
            for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * term(i);
            return sum;
        case Sum::pairwise:
            for (std::size_t i = 0; i < a.size(); i += 2) {
                const float first = a[i] * term(i);
                pairs.push_back(i + 1 < a.size() ? std::fma(a[i + 1], term(i + 1), first) : first);
            }
            return start + sum_of_tree(pairs);
        case Sum::truncating_4:
            return tensor_core_sum({4, 23}, start, a, b, stride);
        case Sum::truncating_8:
            return tensor_core_sum({8, 23}, start, a, b, stride);
        case Sum::truncating_16:
            return tensor_core_sum({16, 23}, start, a, b, stride);
        case Sum::truncating_16_guarded:
            return tensor_core_sum({16, 25}, start, a, b, stride);
        case Sum::truncating_8_guarded:
            return tensor_core_sum({8, 24}, start, a, b, stride);
        case Sum::fp8:
            return tensor_core_sum({16, 13}, start, a, b, stride);
        case Sum::tf32_rounded:
            return tensor_core_sum({4, 23, Dtype::f32, tf32_rounded}, start, a, b, stride);
        case Sum::tf32_cut:
            return tensor_core_sum({4, 23, Dtype::f32, tf32_cut}, start, a, b, stride);
        case Sum::half_fma:
            for (std::size_t i = 0; i < a.size(); ++i)
                sum = to_half(double(a[i]) * double(term(i)) + double(sum));
            return sum;
        case Sum::half_tensor_core:
            return tensor_core_sum({16, 25, Dtype::f16}, start, a, b, stride);
    }
    return sum;
}

float sum_over_lanes(std::span<const float> values, std::int64_t lanes) {
    std::vector<float> partial(std::size_t(lanes), 0.0f);
    for (std::size_t i = 0; i < values.size(); ++i) partial[i % std::size_t(lanes)] += values[i];
    return sum_of_tree(partial);
}

}  // namespace tilescope::test
