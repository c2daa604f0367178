// Compiled once for each instruction set. The build renames Eigen's namespace in all but one of them:
// templates that were compiled for different instruction sets must not share their symbols.

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "oracle/formula/vector_kernels.h"
#include "oracle/formula/vector_products.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// The oracle's own error, relative to its value, and what may be flushed to zero; as in oracle/formula/budget.h.
constexpr double own_error = 0x1p-48;
constexpr double flushed = 0x1p-126;

void add_product(View<const double> a, const PackedColumns& b, View<double> sum) {
    product_with<Keeping<Bounds::none, false>>(a, nullptr, b, {sum.data, sum.rows, sum.cols, sum.ld}, {}, sum,
                                               {});
}

void outer_product(const double* a, const double* b, double scale, View<double> product) {
    for (std::int64_t i = 0; i < product.rows; ++i) {
        const double by = scale * a[i];
        double* row = product.data + i * product.ld;
        for (std::int64_t j = 0; j < product.cols; ++j) row[j] = by * b[j];
    }
}

void sum_of_products(View<const double> a, const float* norms, const PackedColumns& b,
                     View<const double> start, const SumBound& bound, View<double> sum, View<double> error) {
    constexpr decltype(&product_with<Keeping<Bounds::linear, false>>) functions[2][2] = {
        {product_with<Keeping<Bounds::linear, false>>, product_with<Keeping<Bounds::linear, true>>},
        {product_with<Keeping<Bounds::squares, false>>, product_with<Keeping<Bounds::squares, true>>}};
    functions[bound.per_root_squares > 0][bound.start_may_be_last](a, norms, b, start, bound, sum, error);
}

constexpr std::int64_t lanes = 8;
using Lanes = Eigen::Array<double, lanes, 1>;

/// value = exp(s - m). Whole vectors only: what a vector holds must not depend on where the row lies in
/// memory, because the scalar exponential rounds otherwise.
void exponentials_of(const double* s, double m, std::int64_t cols, double* value) {
    std::int64_t j = 0;
    for (; j + lanes <= cols; j += lanes)
        Eigen::Map<Lanes>(value + j) = (Eigen::Map<const Lanes>(s + j) - m).exp();
    if (j == cols) return;
    Lanes rest = Lanes::Zero();
    for (std::int64_t i = j; i < cols; ++i) rest(i - j) = s[i];
    rest = (rest - m).exp();
    for (std::int64_t i = j; i < cols; ++i) value[i] = rest(i - j);
}

/// Where s - m is hardly known: exact growth, and no bound above what m allows.
double wide_error(double value, double x, double inherited, double argument, double function,
                  double most_above_m) {
    const double growth = std::expm1(inherited + argument);
    const double most = (value > std::exp(most_above_m) ? value : std::exp(most_above_m)) *
                        (1 + std::expm1(argument)) * (1 + function);
    const double largest =
        most < double(std::numeric_limits<float>::max()) ? most : double(std::numeric_limits<float>::max());
    const double error =
        value > 0 ? value * (growth + function * (1 + growth)) : std::exp(x + inherited + argument);
    return (error > largest ? largest : error) + value * own_error + flushed;
}

/// A bound of its own: nothing that is stored can change it, so that the loop needs no branch and no reload.
void exponentials_of_row(const double* s, const double* s_error, double m, double m_error,
                         const ExponentialBound bound, std::int64_t cols, double* value, double* error) {
    exponentials_of(s, m, cols, value);
    const double m_magnitude = std::abs(m);
    const bool m_is_known = m == m;
    int wide = 0;
#pragma omp simd reduction(| : wide)
    for (std::int64_t j = 0; j < cols; ++j) {
        const double x = s[j] - m;
        const double distance = x < 0 ? -x : x;
        const double magnitude = s[j] < 0 ? -s[j] : s[j];
        const double shift = s_error[j] + m_error + bound.argument_difference * distance +
                             bound.argument_terms * (magnitude + m_magnitude);
        const double function = bound.function + bound.function_argument * distance;
        // Above expm1 where it is small, which is nearly everywhere.
        const double growth = shift * (1 + shift);
        const bool masked = (s[j] == -infinity) & m_is_known;
        const bool normal = (shift < 1e-3) & (x < 80);
        wide |= !normal & !masked;
        // Far below what float32 holds; Eigen's exponential does not go down to 0.
        const double v = masked | (x < -700) ? 0 : value[j];
        const double v_error = v * (growth + function * (1 + growth)) + v * own_error + flushed;
        value[j] = v;
        error[j] = masked ? 0 : v_error;
    }
    if (!wide) return;
    for (std::int64_t j = 0; j < cols; ++j) {
        if (s[j] == -infinity && m == m) continue;
        const double x = s[j] - m;
        const double distance = std::abs(x);
        const double inherited = s_error[j] + m_error;
        const double argument =
            bound.argument_difference * distance + bound.argument_terms * (std::abs(s[j]) + m_magnitude);
        value[j] = std::exp(x);
        error[j] = wide_error(value[j], x, inherited, argument,
                              bound.function + bound.function_argument * distance, bound.most_above_m);
    }
}

void exponentials_without_bounds(const double* s, double m, std::int64_t cols, double* value) {
    exponentials_of(s, m, cols, value);
    for (std::int64_t j = 0; j < cols; ++j) {
        if (s[j] - m < -700 || (s[j] == -infinity && m == m)) value[j] = 0;
    }
}

void exponentials(View<const double> s, View<const double> s_error, const double* m, const double* m_error,
                  const ExponentialBound& bound, View<double> value, View<double> error) {
    for (std::int64_t i = 0; i < s.rows; ++i) {
        if (error.data == nullptr) {
            exponentials_without_bounds(s.data + i * s.ld, m[i], s.cols, value.data + i * value.ld);
            continue;
        }
        exponentials_of_row(s.data + i * s.ld, s_error.data + i * s_error.ld, m[i], m_error[i], bound, s.cols,
                            value.data + i * value.ld, error.data + i * error.ld);
    }
}

RowExtremes row_extremes(std::span<const double> scores, const double* error, double relative) {
    const double* s = scores.data();
    const auto size = std::int64_t(scores.size());
    double most = -infinity;
    double lower = -infinity;
    double upper = -infinity;
    int unknown = 0;
#pragma omp simd reduction(max : most, lower, upper) reduction(| : unknown)
    for (std::int64_t j = 0; j < size; ++j) {
        const double off = error[j] + relative * (s[j] < 0 ? -s[j] : s[j]);
        // A comparison with NaN, as of infinities that are off by infinity, changes nothing.
        const double low = s[j] - off;
        const double high = s[j] + off;
        most = s[j] > most ? s[j] : most;
        lower = low > lower ? low : lower;
        upper = high > upper ? high : upper;
        unknown |= s[j] != s[j];
    }
    return {unknown != 0 ? std::numeric_limits<double>::quiet_NaN() : most, lower, upper};
}

bool all_finite(std::span<const double> values) {
    const double* v = values.data();
    const auto size = std::int64_t(values.size());
    int others = 0;
#pragma omp simd reduction(| : others)
    for (std::int64_t i = 0; i < size; ++i) others |= !(v[i] - v[i] == 0);
    return others == 0;
}

int is_silent(double error, double spread) {
    return (!(error - error == 0)) | ((spread > 0) & (error >= spread));
}

bool tells(std::span<const double> error, const double* spread) {
    const double* e = error.data();
    const auto size = std::int64_t(error.size());
    if (spread == nullptr) return all_finite(error);
    int silent = 0;
#pragma omp simd reduction(| : silent)
    for (std::int64_t i = 0; i < size; ++i) silent |= is_silent(e[i], spread[i]);
    return silent == 0;
}

bool was_written(float value) {
    std::uint32_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits != unwritten_word;
}

void settle(std::span<const float> got, const double* estimated, const double* estimated_error, double* value,
            double* error) {
    const float* g = got.data();
    const auto size = std::int64_t(got.size());
#pragma omp simd
    for (std::int64_t i = 0; i < size; ++i) {
        const bool known = was_written(g[i]);
        value[i] = known ? double(g[i]) : estimated[i];
        error[i] = known ? 0 : estimated_error[i];
    }
}

Distances distances(std::span<const float> got, const double* expected, double by) {
    const float* g = got.data();
    const auto size = std::int64_t(got.size());
    double largest = 0;
    int any = 0;
    int unknown = 0;
#pragma omp simd reduction(max : largest) reduction(| : any, unknown)
    for (std::int64_t i = 0; i < size; ++i) {
        const int counts = was_written(g[i]) & (expected[i] - expected[i] == 0);
        const double off = double(g[i]) - expected[i] * by;
        const double magnitude = off < 0 ? -off : off;
        any |= counts;
        unknown |= counts & (off != off);
        largest = counts & (magnitude > largest) ? magnitude : largest;
    }
    return {largest, any != 0, unknown != 0};
}

void widen(std::span<const float> values, double* wide) {
    const float* v = values.data();
    const auto size = std::int64_t(values.size());
    for (std::int64_t i = 0; i < size; ++i) wide[i] = double(v[i]);
}

/// Float32 bits as integers that are ordered like the values, both zeros at 0.
std::int32_t ordered(float value) {
    std::int32_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(bits));
    return bits < 0 ? -(bits & 0x7fffffff) : bits;
}

/// Saturates at the largest int32, which only values of opposite sign and huge exponents reach.
std::int32_t ulps_between(float a, float b) {
    const std::int32_t x = ordered(a);
    const std::int32_t y = ordered(b);
    const std::int32_t larger = x > y ? x : y;
    const std::int32_t smaller = x > y ? y : x;
    const auto distance = std::int32_t(std::uint32_t(larger) - std::uint32_t(smaller));
    return distance < 0 ? std::numeric_limits<std::int32_t>::max() : distance;
}

/// Infinities that are alike differ by 0 and not by NaN.
double distance(double value, double expected) {
    const double difference = value > expected ? value - expected : expected - value;
    return value == expected ? 0.0 : difference;
}

/// Not even an infinite tolerance makes up for an infinity.
double allowed_by(double tolerance) {
    constexpr double largest = std::numeric_limits<double>::max();
    return largest < tolerance ? largest : tolerance;
}

double largest_share(std::span<const float> got, const double* expected, const double* tolerance) {
    const float* g = got.data();
    const auto size = std::int64_t(got.size());
    double largest = 0;
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = 0; i < size; ++i) {
        // A comparison with 0 / 0 changes nothing.
        const double used = distance(double(g[i]), expected[i]) / allowed_by(tolerance[i]);
        largest = used > largest ? used : largest;
    }
    return largest;
}

// Free of branches, because nearly every tile of nearly every dump ends here.
template <bool has_spread>
MatchSummary match_with(std::span<const float> got, const double* expected, const double* tolerance,
                        const double* spread, double used) {
    const float* g = got.data();
    const auto size = std::int64_t(got.size());
    double max_abs = 0;
    std::int32_t max_ulp = 0;
    std::int32_t bad = 0;
    std::int32_t more = 0;
    std::int32_t silent = 0;
    // Below `used` by more than products and quotients round: the largest share is the same in any order of tiles.
    const double least = used * (1 - 0x1p-50);
#pragma omp simd reduction(max : max_abs, max_ulp) reduction(+ : bad) reduction(| : more, silent)
    for (std::int64_t i = 0; i < size; ++i) {
        const double counted = distance(double(g[i]), expected[i]);
        const double allowed = allowed_by(tolerance[i]);
        bad += !(counted <= allowed);
        more |= counted > least * allowed;
        silent |= is_silent(tolerance[i], has_spread ? spread[i] : 0);
        max_abs = counted > max_abs ? counted : max_abs;
        const std::int32_t ulps = ulps_between(g[i], float(expected[i]));
        max_ulp = ulps > max_ulp ? ulps : max_ulp;
    }
    const double share = more != 0 ? largest_share(got, expected, tolerance) : 0;
    return {bad == 0, silent == 0, max_abs, max_ulp, share > used ? share : used};
}

MatchSummary match(std::span<const float> got, const double* expected, const double* tolerance,
                   const double* spread, double used) {
    return spread == nullptr ? match_with<false>(got, expected, tolerance, spread, used)
                             : match_with<true>(got, expected, tolerance, spread, used);
}

constexpr VectorKernels kernels = {TILESCOPE_LEVEL_NAME,
                                   panel_cols,
                                   pack,
                                   norms_of_rows,
                                   sum_of_products,
                                   outer_product,
                                   add_product,
                                   exponentials,
                                   row_extremes,
                                   all_finite,
                                   tells,
                                   distances,
                                   settle,
                                   widen,
                                   match};

}  // namespace

const VectorKernels& TILESCOPE_LEVEL_FUNCTION();
const VectorKernels& TILESCOPE_LEVEL_FUNCTION() {
    return kernels;
}

}  // namespace tilescope
