// Compiled once for each instruction set. The build renames Eigen's namespace in all but one of them:
// templates that were compiled for different instruction sets must not share their symbols.

#include <Eigen/Core>
#include <cmath>
#include <limits>

#include "oracle/formula/vector_kernels.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
/// The oracle's own error, relative to its value, and what may be flushed to zero; as in oracle/formula/budget.h.
constexpr double own_error = 0x1p-48;
constexpr double flushed = 0x1p-126;

template <class T>
using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class T>
using Map = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;
template <class T>
using ConstMap = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;

Map<double> map(View<double> view) {
    return {view.data, view.rows, view.cols, Eigen::OuterStride<>(view.ld)};
}
ConstMap<double> map(View<const double> view) {
    return {view.data, view.rows, view.cols, Eigen::OuterStride<>(view.ld)};
}

void add_product(View<const double> a, View<const double> b, bool transposed, View<double> sum) {
    Map<double> result = map(sum);
    if (transposed) {
        result.noalias() += map(a) * map(b).transpose();
    } else {
        result.noalias() += map(a) * map(b);
    }
}

/// Columns [first, first + terms) of a, and what they meet in b.
View<const double> chunk_of(View<const double> view, bool of_columns, std::int64_t first,
                            std::int64_t terms) {
    return of_columns ? View<const double>{view.data + first, view.rows, terms, view.ld}
                      : View<const double>{view.data + first * view.ld, terms, view.cols, view.ld};
}

using Chunk = Eigen::Array<double, chunk_terms, 1>;

/// Norms of rows; the order of their sums must not depend on where they lie.
Eigen::ArrayXd row_norms(View<const double> view) {
    Eigen::ArrayXd squares(view.rows);
    for (std::int64_t i = 0; i < view.rows; ++i) {
        const double* row = view.data + i * view.ld;
        Chunk sums = Chunk::Zero();
        std::int64_t j = 0;
        for (; j + chunk_terms <= view.cols; j += chunk_terms)
            sums += Eigen::Map<const Chunk>(row + j).square();
        for (std::int64_t rest = j; rest < view.cols; ++rest) sums(rest - j) += row[rest] * row[rest];
        squares(i) = sums.sum();
    }
    return squares.sqrt();
}

void product_of_norms(View<const double> a, View<const double> b, double scale, View<double> product) {
    const Eigen::ArrayXd of_a = scale * row_norms(a);
    const Eigen::ArrayXd of_b = row_norms(b);
    for (std::int64_t i = 0; i < product.rows; ++i) map(product).row(i) = of_a(i) * of_b.matrix().transpose();
}

Eigen::ArrayXd col_norms(View<const double> view) {
    Eigen::ArrayXd squares = Eigen::ArrayXd::Zero(view.cols);
    for (std::int64_t i = 0; i < view.rows; ++i) {
        for (std::int64_t j = 0; j < view.cols; ++j) {
            const double value = view.data[i * view.ld + j];
            squares(j) += value * value;
        }
    }
    return squares.sqrt();
}

/// Bounds of partial sums, which float32 is precise enough for.
struct BoundSums {
    RowMajor<float> before;  ///< |sum| before the chunk
    RowMajor<float> linear;
    RowMajor<float> squares;  ///< empty where they are not looked at
};

template <bool with_squares>
void add_chunk(const double* sum, const float* col_norm, float row_norm, std::int64_t cols, float terms,
               float* before, float* linear, float* squares) {
    for (std::int64_t j = 0; j < cols; ++j) {
        const auto value = float(sum[j]);
        const float after = value < 0 ? -value : value;
        const float bound = (before[j] > after ? before[j] : after) + row_norm * col_norm[j];
        before[j] = after;
        linear[j] += terms * bound;
        if constexpr (with_squares) squares[j] += terms * bound * bound;
    }
}

template <bool with_squares>
void finish_bounds(double* sum, const float* linear, const float* squares, const SumBound& bound,
                   std::int64_t cols, double* error) {
    for (std::int64_t j = 0; j < cols; ++j) {
        double rounding = bound.per_partial_sum * double(linear[j]);
        if constexpr (with_squares) {
            const double likely = bound.per_root_squares * double(std::sqrt(squares[j]));
            // Squares that underflow bound nothing.
            const bool usable = squares[j] > 0x1p-100f;
            rounding = usable && likely < rounding ? likely : rounding;
        }
        const double value = sum[j] * bound.scale;
        sum[j] = value;
        error[j] = rounding + bound.per_value * (value < 0 ? -value : value) + bound.constant;
    }
}

template <bool with_squares>
void sum_with(View<const double> a, View<const double> b, bool transposed, const SumBound& bound,
              View<double> sum, View<double> error) {
    BoundSums sums{map(sum).cwiseAbs().cast<float>(), RowMajor<float>::Zero(sum.rows, sum.cols), {}};
    if (with_squares) sums.squares.setZero(sum.rows, sum.cols);
    const auto squares_of = [&](std::int64_t row) { return with_squares ? &sums.squares(row, 0) : nullptr; };
    for (std::int64_t first = 0; first < a.cols; first += chunk_terms) {
        const std::int64_t terms = a.cols - first < chunk_terms ? a.cols - first : chunk_terms;
        const View<const double> a_chunk = chunk_of(a, true, first, terms);
        const View<const double> b_chunk = chunk_of(b, transposed, first, terms);
        add_product(a_chunk, b_chunk, transposed, sum);
        const Eigen::ArrayXf row_norm = float(bound.norm_share) * row_norms(a_chunk).cast<float>();
        const Eigen::ArrayXf col_norm = (transposed ? row_norms(b_chunk) : col_norms(b_chunk)).cast<float>();
        for (std::int64_t i = 0; i < sum.rows; ++i) {
            add_chunk<with_squares>(sum.data + i * sum.ld, col_norm.data(), row_norm(i), sum.cols,
                                    float(terms), &sums.before(i, 0), &sums.linear(i, 0), squares_of(i));
        }
    }
    for (std::int64_t i = 0; i < sum.rows; ++i) {
        finish_bounds<with_squares>(sum.data + i * sum.ld, &sums.linear(i, 0), squares_of(i), bound, sum.cols,
                                    error.data + i * error.ld);
    }
}

void sum_of_products(View<const double> a, View<const double> b, bool transposed, const SumBound& bound,
                     View<double> sum, View<double> error) {
    const auto function = bound.per_root_squares > 0 ? sum_with<true> : sum_with<false>;
    function(a, b, transposed, bound, sum, error);
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

bool tells(std::span<const double> error, const double* spread) {
    const double* e = error.data();
    const auto size = std::int64_t(error.size());
    if (spread == nullptr) return all_finite(error);
    int silent = 0;
#pragma omp simd reduction(| : silent)
    for (std::int64_t i = 0; i < size; ++i)
        silent |= (!(e[i] - e[i] == 0)) | ((spread[i] > 0) & (e[i] >= spread[i]));
    return silent == 0;
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

// Free of branches, because nearly every tile of nearly every dump ends here.
MatchSummary match(std::span<const float> got, const double* expected, const double* tolerance) {
    const float* g = got.data();
    const auto size = std::int64_t(got.size());
    constexpr double largest = std::numeric_limits<double>::max();
    double max_abs = 0;
    double budget_used = 0;
    std::int32_t max_ulp = 0;
    std::int32_t bad = 0;
#pragma omp simd reduction(max : max_abs, budget_used, max_ulp) reduction(+ : bad)
    for (std::int64_t i = 0; i < size; ++i) {
        const double value = double(g[i]);
        const double difference = value > expected[i] ? value - expected[i] : expected[i] - value;
        const double counted =
            value == expected[i] ? 0.0 : difference;  // infinities, whose difference is NaN
        // Not even an infinite tolerance makes up for an infinity.
        const double allowed = largest < tolerance[i] ? largest : tolerance[i];
        bad += !(counted <= allowed);
        max_abs = counted > max_abs ? counted : max_abs;
        // A comparison with 0 / 0 changes nothing.
        const double used = counted / allowed;
        budget_used = used > budget_used ? used : budget_used;
        const std::int32_t ulps = ulps_between(g[i], float(expected[i]));
        max_ulp = ulps > max_ulp ? ulps : max_ulp;
    }
    return {bad == 0, max_abs, max_ulp, budget_used};
}

constexpr VectorKernels kernels = {TILESCOPE_LEVEL_NAME,
                                   sum_of_products,
                                   product_of_norms,
                                   add_product,
                                   exponentials,
                                   row_extremes,
                                   all_finite,
                                   tells,
                                   widen,
                                   match};

}  // namespace

const VectorKernels& TILESCOPE_LEVEL_FUNCTION();
const VectorKernels& TILESCOPE_LEVEL_FUNCTION() {
    return kernels;
}

}  // namespace tilescope
