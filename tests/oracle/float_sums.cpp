#include "tests/oracle/float_sums.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tilescope::test {

namespace {

float tree(std::span<const float> values) {
    if (values.empty()) return 0;
    if (values.size() == 1) return values[0];
    const std::size_t half = values.size() / 2;
    return tree(values.first(half)) + tree(values.subspan(half));
}

/// `value` cut off towards zero after the bit 2^last_bit.
double cut(double value, int last_bit) {
    return std::ldexp(std::trunc(std::ldexp(value, -last_bit)), last_bit);
}

/// One step of a tensor core: the exact products and the accumulator are aligned to the largest exponent, cut
/// after `guard_bits` bits below float32's last one, added exactly, and the sum cut to float32.
float tensor_core_step(float accumulator, std::span<const double> products, int guard_bits) {
    double largest = std::abs(double(accumulator));
    for (const double product : products) largest = std::max(largest, std::abs(product));
    if (largest == 0 || !std::isfinite(largest)) {
        double sum = accumulator;
        for (const double product : products) sum += product;
        return float(sum);
    }
    const int last_bit = std::ilogb(largest) - 23 - guard_bits;
    double sum = cut(accumulator, last_bit);
    for (const double product : products) sum += cut(product, last_bit);
    if (sum == 0) return 0;
    return float(cut(sum, std::max(std::ilogb(sum) - 23, -149)));
}

float tensor_core_sum(float start, std::span<const float> a, const float* b, std::int64_t stride,
                      std::size_t group, int guard_bits) {
    std::array<double, 16> products;
    float sum = start;
    for (std::size_t first = 0; first < a.size(); first += group) {
        const std::size_t count = std::min(group, a.size() - first);
        for (std::size_t i = 0; i < count; ++i)
            products[i] = double(a[first + i]) * double(b[std::int64_t(first + i) * stride]);
        sum = tensor_core_step(sum, std::span(products).first(count), guard_bits);
    }
    return sum;
}

}  // namespace

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
            return start + tree(pairs);
        case Sum::truncating_4:
            return tensor_core_sum(start, a, b, stride, 4, 0);
        case Sum::truncating_8:
            return tensor_core_sum(start, a, b, stride, 8, 0);
        case Sum::truncating_16:
            return tensor_core_sum(start, a, b, stride, 16, 0);
        case Sum::truncating_16_guarded:
            return tensor_core_sum(start, a, b, stride, 16, 3);
    }
    return sum;
}

float sum_over_lanes(std::span<const float> values, std::int64_t lanes) {
    std::vector<float> partial(std::size_t(lanes), 0.0f);
    for (std::size_t i = 0; i < values.size(); ++i) partial[i % std::size_t(lanes)] += values[i];
    return tree(partial);
}

}  // namespace tilescope::test
