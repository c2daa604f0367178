// Compiled once for each instruction set, as oracle/formula/vector_kernels_level.cpp is. Loops are free of branches; what is not
// ordinary is only noticed.

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "oracle/program/element_kernels.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double u = 0x1p-24;
constexpr double flushed = 0x1p-126;
constexpr double largest_float = 0x1.fffffep127;
/// Arguments of exponentials whose results are far from the ends of float32.
constexpr double most_argument = 80;
/// Far below what float32 holds: Eigen's exponential does not go down to 0, which the other is below the second.
constexpr double least_argument = -700;
constexpr double nothing_left = -746;
/// What an argument may be off by, so that s (1 + s) is above the growth of the exponential, and hardly above.
constexpr double most_shift = 1e-3;

double magnitude(double x) {
    return x < 0 ? -x : x;
}

/// Beyond the range of float32, or not known.
int is_unusual(double value, double error) {
    return !(magnitude(value) + error <= largest_float);
}

/// As is_exact_sum has it.
bool is_exact_sum_of(double x, double y, double sum) {
    const double of_y = sum - x;
    const double lost = (x - (sum - of_y)) + (y - of_y);
    return (lost == 0) & (double(float(sum)) == sum);
}

/// Of a number that is not 0 and none of the smallest.
bool is_power_of_two(double x) {
    return (std::bit_cast<std::uint64_t>(x) & 0x000fffffffffffff) == 0;
}

bool added(ElementSpan x, ElementSpan y, std::int64_t count, ElementResult result) {
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double a = x.value[i];
        const double b = y.value[i];
        const double a_error = x.error[i];
        const double b_error = y.error[i];
        const bool is_b = (a == 0) & (a_error == 0);
        const bool is_a = (b == 0) & (b_error == 0);
        const double sum = a + b;
        const double given = a_error + b_error;
        const bool is_exact = is_a | is_b | ((given == 0) & is_exact_sum_of(a, b, sum));
        const double error = given + (is_exact ? 0 : u * magnitude(sum));
        unusual |= is_unusual(sum, error);
        result.value[i] = is_b ? b : sum;
        result.error[i] = error;
    }
    return unusual == 0;
}

bool multiplied(ElementSpan x, ElementSpan y, std::int64_t count, ElementResult result) {
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double a = x.value[i];
        const double b = y.value[i];
        const double a_error = x.error[i];
        const double b_error = y.error[i];
        const bool is_exact = ((a == 1) & (a_error == 0)) | ((b == 1) & (b_error == 0));
        const double product = a * b;
        const double carried = magnitude(a) * b_error + (magnitude(b) + b_error) * a_error;
        const bool is_scaled = (a_error + b_error == 0) & (is_power_of_two(a) | is_power_of_two(b)) &
                               (double(float(product)) == product);
        const double rounding =
            (is_scaled ? 0 : u * magnitude(product)) + ((a != 0) & (b != 0) ? flushed : 0);
        const double error = carried + (is_exact ? 0 : rounding);
        unusual |= is_unusual(product, error);
        result.value[i] = product;
        result.error[i] = error;
    }
    return unusual == 0;
}

constexpr std::int64_t lanes = 8;
using Lanes = Eigen::Array<double, lanes, 1>;

/// Whole vectors only: the scalar exponential rounds otherwise.
void take_exponentials(double* values, std::int64_t count) {
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        Eigen::Map<Lanes> some(values + i);
        some = some.exp();
    }
    if (i == count) return;
    Lanes rest = Lanes::Zero();
    for (std::int64_t k = i; k < count; ++k) rest(k - i) = values[k];
    rest = rest.exp();
    for (std::int64_t k = i; k < count; ++k) values[k] = rest(k - i);
}

bool exponentials(ElementSpan x, std::int64_t count, ElementResult result) {
    for (std::int64_t i = 0; i < count; ++i) result.value[i] = x.value[i];
    take_exponentials(result.value, count);
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double argument = x.value[i];
        const double shift = x.error[i];
        const bool is_nothing = argument < nothing_left;
        const double value = argument < least_argument ? 0 : result.value[i];
        const double error =
            value * (shift * (1 + shift) + u * (4 + 2 * magnitude(is_nothing ? 0 : argument))) +
            (is_nothing ? 0 : flushed);
        unusual |= !((argument <= most_argument) & (shift <= most_shift));
        result.value[i] = value;
        result.error[i] = error;
    }
    return unusual == 0;
}

bool exponentials_of_differences(ElementSpan x, ElementSpan y, double scale, std::int64_t count,
                                 ElementResult result) {
    constexpr double fused = 3 * u / (1 - 3 * u);
    // What is far below 0 has no exponential that Eigen's is made for.
    for (std::int64_t i = 0; i < count; ++i) result.value[i] = (x.value[i] - y.value[i]) * scale;
    take_exponentials(result.value, count);
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double a = x.value[i];
        const double b = y.value[i];
        const double difference = a - b;
        const bool is_whole = ((a == 0) & (x.error[i] == 0)) | ((b == 0) & (y.error[i] == 0));
        const double argument = difference * scale;
        const double inherited = x.error[i] + y.error[i];
        const bool is_masked = argument == -infinity;
        const double rounding = (is_whole & (inherited > 0) ? 0 : u * magnitude(difference)) +
                                fused * (magnitude(a) + magnitude(b));
        const double shift = is_masked ? 0 : (inherited + rounding) * scale + 2 * u * magnitude(argument);
        const double value = argument < least_argument ? 0 : result.value[i];
        const double error = value * (shift * (1 + shift) + 4 * u);
        // Less than half of the smallest number is 0 in any kernel.
        const bool is_zero = value + error < 0x1p-150;
        unusual |= !((argument <= most_argument) & (shift <= most_shift) & (inherited <= most_shift));
        result.value[i] = is_zero ? 0 : value;
        result.error[i] = is_zero ? 0 : error + flushed;
    }
    return unusual == 0;
}

bool chosen(ElementSpan x, ElementSpan condition, ElementSpan otherwise, std::int64_t count,
            ElementResult result) {
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double holds = condition.value[i];
        const double a = x.value[i];
        const double b = otherwise.value[i];
        const double a_error = x.error[i];
        const double b_error = otherwise.error[i];
        unusual |= (holds != holds) | (condition.error[i] != 0);
        result.value[i] = holds != 0 ? a : b;
        result.error[i] = holds != 0 ? a_error : b_error;
    }
    return unusual == 0;
}

/// To nearest, of two the even one: of numbers below the normal ones in steps of the smallest, of others in the bits that are kept.
double rounded_to(double x, int dropped, double least_normal, double stepping) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof(bits));
    const std::uint64_t half = (std::uint64_t(1) << (dropped - 1)) - 1;
    bits += half + (bits >> dropped & 1);
    bits &= ~((std::uint64_t(1) << dropped) - 1);
    double normal = 0;
    std::memcpy(&normal, &bits, sizeof(normal));
    const double near_zero = (x + stepping) - stepping;
    return magnitude(x) < least_normal ? near_zero : normal;
}

bool cast(const FloatGrid& grid, ElementSpan x, std::int64_t count, ElementResult result) {
    const int dropped = 53 - grid.digits;
    const double least = grid.least_normal;
    // 1.5 times the power of two from which on float64 has the steps of the smallest numbers.
    const double stepping = 0x1.8p53 * std::ldexp(least, -grid.digits);
    const double largest = grid.largest;
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) {
        const double value = x.value[i];
        const double error = x.error[i];
        const double low = rounded_to(value - error, dropped, least, stepping);
        const double high = rounded_to(value + error, dropped, least, stepping);
        // Their sum may be beyond float64 of no type that is narrower.
        unusual |= !((magnitude(low) <= largest) & (magnitude(high) <= largest));
        result.value[i] = (low + high) / 2;
        result.error[i] = (high - low) / 2;
    }
    return unusual == 0;
}

void add_errors_of_row(ElementSpan x, ElementSpan y, std::int64_t rows, std::int64_t cols, double* errors) {
    for (std::int64_t k = 0; k < rows; ++k) {
        const double most = magnitude(x.value[k]);
        const double off = x.error[k];
        const double* const value = y.value + k * cols;
        const double* const error = y.error + k * cols;
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j)
            errors[j] += most * error[j] + off * (magnitude(value[j]) + error[j]);
    }
}

bool decoded(ElementCode code, const std::byte* bits, std::int64_t count, double* value) {
    constexpr std::int64_t at_once = 256;
    float numbers[at_once];
    int unusual = 0;
    for (std::int64_t first = 0; first < count; first += at_once) {
        const std::int64_t some = count - first < at_once ? count - first : at_once;
        if (code == ElementCode::f32) {
            std::memcpy(numbers, bits + first * 4, std::size_t(some) * 4);
        } else {
            std::uint16_t codes[at_once];
            std::memcpy(codes, bits + first * 2, std::size_t(some) * 2);
            std::uint32_t words[at_once];
            if (code == ElementCode::bf16) {
                for (std::int64_t i = 0; i < some; ++i) words[i] = std::uint32_t(codes[i]) << 16;
                std::memcpy(numbers, words, sizeof(float) * std::size_t(some));
            } else {
                // Exponents of float16 are 112 less; infinities and NaN would become numbers.
                for (std::int64_t i = 0; i < some; ++i) {
                    unusual |= int((codes[i] & 0x7c00) == 0x7c00);
                    words[i] = std::uint32_t(codes[i] & 0x8000) << 16 | std::uint32_t(codes[i] & 0x7fff)
                                                                            << 13;
                }
                std::memcpy(numbers, words, sizeof(float) * std::size_t(some));
                for (std::int64_t i = 0; i < some; ++i) numbers[i] *= 0x1p112F;
            }
        }
        for (std::int64_t i = 0; i < some; ++i) value[first + i] = double(numbers[i]);
    }
    return unusual == 0;
}

bool none_is(std::uint64_t bits, const double* values, std::int64_t count) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (std::int64_t i = 0; i < count; ++i) {
        std::uint64_t own = 0;
        std::memcpy(&own, values + i, sizeof(own));
        found |= int(own == bits);
    }
    return found == 0;
}

bool in_range(ElementSpan x, std::int64_t count) {
    int unusual = 0;
#pragma omp simd reduction(| : unusual)
    for (std::int64_t i = 0; i < count; ++i) unusual |= is_unusual(x.value[i], x.error[i]);
    return unusual == 0;
}

HeldElements held(const double* got, ElementSpan expected, std::int64_t count) {
    int other = 0;
    double difference = 0;
    double used = 0;
    double tolerance = 0;
    double most = 0;
#pragma omp simd reduction(| : other) reduction(max : difference, used, tolerance, most)
    for (std::int64_t i = 0; i < count; ++i) {
        const double off = magnitude(got[i] - expected.value[i]);
        const double allowed = expected.error[i];
        const double around = magnitude(expected.value[i]);
        other |= !((off <= allowed) & (around <= std::numeric_limits<double>::max()) &
                   (allowed <= std::numeric_limits<double>::max()));
        // A comparison with 0 / 0 changes nothing.
        const double share = off / allowed;
        difference = off > difference ? off : difference;
        used = share > used ? share : used;
        tolerance = allowed > tolerance ? allowed : tolerance;
        most = around > most ? around : most;
    }
    return {other == 0, difference, used, tolerance, most};
}

constexpr ElementKernels kernels = {TILESCOPE_LEVEL_NAME,
                                    added,
                                    multiplied,
                                    exponentials,
                                    exponentials_of_differences,
                                    chosen,
                                    cast,
                                    add_errors_of_row,
                                    decoded,
                                    none_is,
                                    in_range,
                                    held};

}  // namespace

const ElementKernels& TILESCOPE_LEVEL_ELEMENTS();
const ElementKernels& TILESCOPE_LEVEL_ELEMENTS() {
    return kernels;
}

}  // namespace tilescope
