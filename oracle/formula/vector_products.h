// Products of matrices with the bounds of their partial sums, both in registers. Included by
// vector_kernels_level.cpp alone, once for each instruction set.

#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "oracle/formula/vector_kernels.h"

namespace tilescope {
namespace {

// The sums of `product_rows` rows and a panel of b fit the registers.
#if defined(__AVX512F__)
constexpr int product_lanes = 8;
constexpr int product_rows = 8;
#elif defined(__AVX__)
constexpr int product_lanes = 4;
constexpr int product_rows = 4;
#else
constexpr int product_lanes = 2;
constexpr int product_rows = 4;
#endif
constexpr int panel_cols = 2 * product_lanes;

using Doubles = double __attribute__((vector_size(8 * product_lanes)));
using Floats = float __attribute__((vector_size(4 * product_lanes)));

template <class Vector, class T>
Vector load(const T* from) {
    Vector vector;
    std::memcpy(&vector, from, sizeof(vector));
    return vector;
}

template <class Vector, class T>
void store(const Vector& vector, T* to) {
    std::memcpy(to, &vector, sizeof(vector));
}

Floats magnitudes(Floats vector) {
    using Bits = std::int32_t __attribute__((vector_size(sizeof(Floats))));
    return Floats(Bits(vector) & 0x7fffffff);
}

Floats narrow(Doubles sums) {
    return __builtin_convertvector(sums, Floats);
}

// a b + sum. The build lets the compiler contract nothing.

Doubles multiply_add(double a, Doubles b, Doubles sum) {
#if defined(__AVX512F__)
    return _mm512_fmadd_pd(_mm512_set1_pd(a), b, sum);
#elif defined(__FMA__)
    return _mm256_fmadd_pd(_mm256_set1_pd(a), b, sum);
#else
    return a * b + sum;
#endif
}

Floats multiply_add(float a, Floats b, Floats sum) {
#if defined(__AVX512F__)
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum);
#elif defined(__FMA__)
    return _mm_fmadd_ps(_mm_set1_ps(a), b, sum);
#else
    return a * b + sum;
#endif
}

std::int64_t chunks_of(std::int64_t terms) {
    return (terms + chunk_terms - 1) / chunk_terms;
}

/// Which bounds of partial sums a product keeps.
enum class Bounds : std::uint8_t { none, linear, squares };

/// Columns of b that are summed at once, term by term. Those that b does not have are 0.
struct Panel {
    std::int64_t cols;     ///< that b has
    const double* values;  ///< [terms][panel_cols]
    const float* norms;    ///< [chunks][panel_cols], of a chunk's terms
};

/// Lanes of a whose number has no bit `distance`, and those of b there in place of the others; or the other way round.
template <int distance, int... lane>
Doubles lower_lanes(Doubles a, Doubles b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(a, b,
                                   ((lane & distance) == 0 ? lane : product_lanes + lane - distance)...);
}

template <int distance, int... lane>
Doubles upper_lanes(Doubles a, Doubles b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(a, b,
                                   ((lane & distance) == 0 ? lane + distance : product_lanes + lane)...);
}

template <int distance>
void swap_blocks(Doubles (&rows)[product_lanes]) {
    constexpr std::make_integer_sequence<int, product_lanes> lanes;
#pragma GCC unroll 8
    for (int i = 0; i < product_lanes; ++i) {
        if ((i & distance) != 0) continue;
        const Doubles upper = rows[i + distance];
        rows[i + distance] = upper_lanes<distance>(rows[i], upper, lanes);
        rows[i] = lower_lanes<distance>(rows[i], upper, lanes);
    }
    if constexpr (distance > 1) swap_blocks<distance / 2>(rows);
}

/// A square of as many rows as a vector has lanes; to rows of a panel.
void transpose(const double* from, std::int64_t ld, double* to) {
    Doubles rows[product_lanes];
#pragma GCC unroll 8
    for (int i = 0; i < product_lanes; ++i) rows[i] = load<Doubles>(from + i * ld);
    swap_blocks<product_lanes / 2>(rows);
#pragma GCC unroll 8
    for (int i = 0; i < product_lanes; ++i) store(rows[i], to + i * panel_cols);
}

void fill_values(View<const double> b, bool transposed, std::int64_t first, double* values) {
    const std::int64_t terms = transposed ? b.cols : b.rows;
    const std::int64_t rest = (transposed ? b.rows : b.cols) - first;
    const std::int64_t cols = rest < panel_cols ? rest : panel_cols;
    if (cols < panel_cols) std::memset(values, 0, sizeof(double) * std::size_t(terms * panel_cols));
    if (!transposed) {
        for (std::int64_t k = 0; k < terms; ++k)
            std::memcpy(values + k * panel_cols, b.data + k * b.ld + first,
                        sizeof(double) * std::size_t(cols));
        return;
    }
    for (std::int64_t j = 0; j < cols; j += product_lanes) {
        const double* from = b.data + (first + j) * b.ld;
        const bool is_whole = j + product_lanes <= cols;
        std::int64_t k = 0;
        for (; is_whole && k + product_lanes <= terms; k += product_lanes)
            transpose(from + k, b.ld, values + k * panel_cols + j);
        for (std::int64_t i = j; i < j + product_lanes && i < cols; ++i, from += b.ld) {
            for (std::int64_t term = k; term < terms; ++term) values[term * panel_cols + i] = from[term];
        }
    }
}

void fill_norms(const double* values, std::int64_t terms, float* norms, double* whole) {
    double all[panel_cols] = {};
    for (std::int64_t k = 0; k < terms; norms += panel_cols) {
        double squares[panel_cols] = {};
        const std::int64_t end = k + chunk_terms < terms ? k + chunk_terms : terms;
        for (; k < end; ++k, values += panel_cols) {
            for (int j = 0; j < panel_cols; ++j) squares[j] += values[j] * values[j];
        }
        for (int j = 0; j < panel_cols; ++j) {
            norms[j] = float(std::sqrt(squares[j]));
            all[j] += squares[j];
        }
    }
    for (int j = 0; j < panel_cols; ++j) whole[j] = std::sqrt(all[j]);
}

void pack(View<const double> b, bool transposed, double* values, float* norms, double* whole_norms) {
    const std::int64_t terms = transposed ? b.cols : b.rows;
    const std::int64_t cols = transposed ? b.rows : b.cols;
    for (std::int64_t first = 0; first < cols; first += panel_cols) {
        fill_values(b, transposed, first, values);
        if (norms != nullptr) {
            fill_norms(values, terms, norms, whole_norms);
            norms += chunks_of(terms) * panel_cols;
            whole_norms += panel_cols;
        }
        values += terms * panel_cols;
    }
}

/// Rows of a, and where a panel's sums of them come from and go to.
struct ProductRows {
    const double* a;
    std::int64_t a_ld;
    const float* norms;   ///< [rows][chunks], of a chunk's terms
    const double* start;  ///< null: 0
    std::int64_t start_ld;
    double* sum;
    std::int64_t sum_ld;
    double* error;
    std::int64_t error_ld;
};

Doubles start_of(const ProductRows& at, int row, int vector, std::int64_t cols) {
    if (at.start == nullptr) return Doubles{};
    const double* from = at.start + row * at.start_ld;
    if (cols == panel_cols) return load<Doubles>(from + vector * product_lanes);
    double whole[panel_cols] = {};
    std::memcpy(whole, from, sizeof(double) * std::size_t(cols));
    return load<Doubles>(whole + vector * product_lanes);
}

/// A row of sums, and what their partial sums add up to.
template <Bounds bounds>
struct RowSums {
    Doubles sum[2];
    // float32 is precise enough for bounds.
    Floats before[2];  ///< |sum| before the chunk
    Floats linear[2];
    Floats squares[2];
};

template <Bounds bounds>
void add_bounds(const float* col_norms, float row_norm, float terms, RowSums<bounds>& row) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
        const Floats after = magnitudes(narrow(row.sum[v]));
        const Floats most = row.before[v] > after ? row.before[v] : after;
        const Floats partial = multiply_add(row_norm, load<Floats>(col_norms + v * product_lanes), most);
        row.before[v] = after;
        row.linear[v] = multiply_add(terms, partial, row.linear[v]);
        if constexpr (bounds == Bounds::squares)
            row.squares[v] = multiply_add(terms, partial * partial, row.squares[v]);
    }
}

/// The first `cols` of a panel's columns.
void put(const Doubles (&values)[2], std::int64_t cols, double* to) {
    if (cols == panel_cols) {
        store(values[0], to);
        store(values[1], to + product_lanes);
    } else {
        std::memcpy(to, values, sizeof(double) * std::size_t(cols));
    }
}

/// A kernel may add the terms from the last to the first: of one sign, no partial sum is then larger than the start or the sum.
/// The start is read again: kept through the chunks it would take their registers.
template <Bounds bounds>
void add_reversed(const ProductRows& at, int i, std::int64_t cols, float terms, RowSums<bounds>& row) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
        const Floats start = magnitudes(narrow(start_of(at, i, v, cols)));
        const Floats most = start > row.before[v] ? start : row.before[v];
        const Floats linear = terms * most;
        row.linear[v] = row.linear[v] > linear ? row.linear[v] : linear;
        if constexpr (bounds == Bounds::squares) {
            const Floats squares = linear * most;
            row.squares[v] = row.squares[v] > squares ? row.squares[v] : squares;
        }
    }
}

/// The smaller of the certain and the probable bound.
Doubles smaller_bound(Doubles certain, Floats squares, double per_root_squares) {
    for (int j = 0; j < product_lanes; ++j) {
        const double probable = per_root_squares * double(std::sqrt(squares[j]));
        // Squares that underflow bound nothing.
        if (squares[j] > 0x1p-100f && probable < certain[j]) certain[j] = probable;
    }
    return certain;
}

template <Bounds bounds>
[[gnu::always_inline]] inline void finish_row(const RowSums<bounds>& row, const SumBound& bound,
                                              std::int64_t cols, double* sum, double* error) {
    Doubles value[2];
    Doubles total[2];
    for (int v = 0; v < 2; ++v) {
        value[v] = row.sum[v] * bound.scale;
        if constexpr (bounds == Bounds::none) continue;
        Doubles rounding = bound.per_partial_sum * __builtin_convertvector(row.linear[v], Doubles);
        if constexpr (bounds == Bounds::squares)
            rounding = smaller_bound(rounding, row.squares[v], bound.per_root_squares);
        const Doubles magnitude = value[v] < 0 ? -value[v] : value[v];
        total[v] = rounding + bound.per_value * magnitude + bound.constant;
    }
    put(value, cols, sum);
    if constexpr (bounds != Bounds::none) put(total, cols, error);
}

template <int rows, Bounds bounds>
void sum_rows(const ProductRows& at, const Panel& panel, std::int64_t terms, const SumBound& bound) {
    RowSums<bounds> row[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
            row[i].sum[v] = start_of(at, i, v, panel.cols);
            row[i].before[v] = magnitudes(narrow(row[i].sum[v]));
            row[i].linear[v] = row[i].squares[v] = Floats{};
        }
    }
    const std::int64_t chunks = chunks_of(terms);
    const auto norm_share = float(bound.norm_share);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        const std::int64_t first = chunk * chunk_terms;
        const std::int64_t end = first + chunk_terms < terms ? first + chunk_terms : terms;
        const double* b = panel.values + first * panel_cols;
        for (std::int64_t k = first; k < end; ++k, b += panel_cols) {
            const auto b0 = load<Doubles>(b);
            const auto b1 = load<Doubles>(b + product_lanes);
#pragma GCC unroll 8
            for (int i = 0; i < rows; ++i) {
                const double a = at.a[i * at.a_ld + k];
                row[i].sum[0] = multiply_add(a, b0, row[i].sum[0]);
                row[i].sum[1] = multiply_add(a, b1, row[i].sum[1]);
            }
        }
        if constexpr (bounds == Bounds::none) continue;
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i)
            add_bounds(panel.norms + chunk * panel_cols, norm_share * at.norms[i * chunks + chunk],
                       float(end - first), row[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        if constexpr (bounds != Bounds::none) add_reversed(at, i, panel.cols, float(terms), row[i]);
        finish_row(row[i], bound, panel.cols, at.sum + i * at.sum_ld, at.error + i * at.error_ld);
    }
}

/// All rows of a panel, from `at` on.
template <Bounds bounds>
void sum_panel(ProductRows at, std::int64_t rows, const Panel& panel, std::int64_t terms,
               const SumBound& bound) {
    const auto advance = [&](std::int64_t by) {
        at.a += by * at.a_ld;
        if (at.norms != nullptr) at.norms += by * chunks_of(terms);
        if (at.start != nullptr) at.start += by * at.start_ld;
        at.sum += by * at.sum_ld;
        if (at.error != nullptr) at.error += by * at.error_ld;
    };
    for (; rows >= product_rows; rows -= product_rows) {
        sum_rows<product_rows, bounds>(at, panel, terms, bound);
        advance(product_rows);
    }
    for (; rows > 0; --rows) {
        sum_rows<1, bounds>(at, panel, terms, bound);
        advance(1);
    }
}

/// In an order that does not depend on where the terms lie.
double chunk_squares(const double* terms) {
    Doubles squares = {};
    for (int j = 0; j < chunk_terms; j += product_lanes) {
        const auto part = load<Doubles>(terms + j);
        squares += part * part;
    }
    double sum = 0;
    for (int j = 0; j < product_lanes; j += 2) sum += squares[j] + squares[j + 1];
    return sum;
}

void norms_of_rows(View<const double> a, float* norms, double* whole_norms) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
        const double* row = a.data + i * a.ld;
        double all = 0;
        for (std::int64_t k = 0; k < a.cols; k += chunk_terms) {
            double rest[chunk_terms] = {};
            const bool is_whole = k + chunk_terms <= a.cols;
            if (!is_whole) std::memcpy(rest, row + k, sizeof(double) * std::size_t(a.cols - k));
            const double squares = chunk_squares(is_whole ? row + k : rest);
            *norms++ = float(std::sqrt(squares));
            all += squares;
        }
        if (whole_norms != nullptr) whole_norms[i] = std::sqrt(all);
    }
}

template <Bounds bounds>
void product_with(View<const double> a, const float* norms, const PackedColumns& b, View<const double> start,
                  const SumBound& bound, View<double> sum, View<double> error) {
    const std::int64_t terms = a.cols;
    Panel panel{0, b.values, b.norms};
    for (std::int64_t first = 0; first < sum.cols; first += panel_cols) {
        panel.cols = sum.cols - first < panel_cols ? sum.cols - first : panel_cols;
        const double* const from = start.data == nullptr ? nullptr : start.data + first;
        double* const to = error.data == nullptr ? nullptr : error.data + first;
        sum_panel<bounds>({a.data, a.ld, norms, from, start.ld, sum.data + first, sum.ld, to, error.ld},
                          sum.rows, panel, terms, bound);
        panel.values += terms * panel_cols;
        panel.norms += bounds == Bounds::none ? 0 : chunks_of(terms) * panel_cols;
    }
}

}  // namespace
}  // namespace tilescope
