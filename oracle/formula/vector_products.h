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
using PanelFloats = float __attribute__((vector_size(4 * panel_cols)));

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

template <int... lane>
PanelFloats joined(Floats a, Floats b, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(a, b, lane...);
}

template <int first, int... lane>
Floats half_of(PanelFloats vector, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(vector, vector, (first + lane)...);
}

/// Both halves of a panel's columns, as float32.
PanelFloats magnitudes(Doubles a, Doubles b) {
    using Bits = std::int32_t __attribute__((vector_size(sizeof(PanelFloats))));
    const PanelFloats both = joined(__builtin_convertvector(a, Floats), __builtin_convertvector(b, Floats),
                                    std::make_integer_sequence<int, panel_cols>());
    return PanelFloats(Bits(both) & 0x7fffffff);
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

PanelFloats multiply_add(float a, PanelFloats b, PanelFloats sum) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(_mm512_set1_ps(a), b, sum);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(_mm256_set1_ps(a), b, sum);
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
        // Of a length that is known: otherwise each is a call.
        for (std::int64_t k = 0; k < terms && cols == panel_cols; ++k)
            std::memcpy(values + k * panel_cols, b.data + k * b.ld + first, sizeof(double) * panel_cols);
        for (std::int64_t k = 0; k < terms && cols < panel_cols; ++k)
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

ProductRows rows_behind(ProductRows at, std::int64_t by, std::int64_t terms) {
    at.a += by * at.a_ld;
    if (at.norms != nullptr) at.norms += by * chunks_of(terms);
    if (at.start != nullptr) at.start += by * at.start_ld;
    at.sum += by * at.sum_ld;
    if (at.error != nullptr) at.error += by * at.error_ld;
    return at;
}

Doubles start_of(const ProductRows& at, int row, int vector, std::int64_t cols) {
    if (at.start == nullptr) return Doubles{};
    const double* from = at.start + row * at.start_ld;
    if (cols == panel_cols) return load<Doubles>(from + vector * product_lanes);
    double whole[panel_cols] = {};
    std::memcpy(whole, from, sizeof(double) * std::size_t(cols));
    return load<Doubles>(whole + vector * product_lanes);
}

/// What partial sums of a row add up to. float32 is precise enough for bounds.
struct PartialSums {
    PanelFloats before;  ///< |sum| before the chunk
    PanelFloats linear;
    PanelFloats squares;
};

/// A row of sums.
struct RowSums {
    Doubles sum[2];
    PartialSums own;
    PartialSums begun;  ///< of the same with the start before the first term, where it may come first or last
};

/// What a product keeps of its partial sums: `either`: of those with and without the start.
template <Bounds bounds_, bool either_>
struct Keeping {
    static constexpr Bounds bounds = bounds_;
    static constexpr bool either = either_;
};

template <Bounds bounds>
void add_bounds(PanelFloats col_norms, float row_norm, float terms, PanelFloats after, PartialSums& of) {
    const PanelFloats most = of.before > after ? of.before : after;
    const PanelFloats partial = multiply_add(row_norm, col_norms, most);
    of.before = after;
    of.linear = multiply_add(terms, partial, of.linear);
    if constexpr (bounds == Bounds::squares) of.squares = multiply_add(terms, partial * partial, of.squares);
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
template <Bounds bounds>
void add_reversed(float terms, PanelFloats start, PartialSums& of) {
    const PanelFloats most = start > of.before ? start : of.before;
    const PanelFloats linear = terms * most;
    of.linear = of.linear > linear ? of.linear : linear;
    if constexpr (bounds == Bounds::squares) {
        const PanelFloats squares = linear * most;
        of.squares = of.squares > squares ? of.squares : squares;
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

/// What the partial sums allow, and the oracle's own roundings of a value.
template <Bounds bounds, int v>
Doubles total_of(const PartialSums& of, Doubles value, const SumBound& bound) {
    constexpr std::make_integer_sequence<int, product_lanes> lanes_of_half;
    const Floats linear = half_of<v * product_lanes>(of.linear, lanes_of_half);
    Doubles rounding = bound.per_partial_sum * __builtin_convertvector(linear, Doubles);
    if constexpr (bounds == Bounds::squares)
        rounding = smaller_bound(rounding, half_of<v * product_lanes>(of.squares, lanes_of_half),
                                 bound.per_root_squares);
    const Doubles magnitude = value < 0 ? -value : value;
    return rounding + bound.per_value * magnitude + bound.constant;
}

/// Terms that are summed before other rows and columns are: a panel of them stays in the nearest cache.
constexpr std::int64_t terms_at_once = 256;
constexpr std::int64_t rows_at_once = 64;

/// Which terms of a sum are taken now, and the sums between one part of them and the next: [rows] of a panel.
struct TermRange {
    std::int64_t first;
    std::int64_t end;
    std::int64_t all;
    RowSums* between;
};

template <class Keep>
[[gnu::always_inline]] inline void begin_row(const ProductRows& at, const Panel& panel,
                                             const TermRange& range, int i, RowSums& row) {
    if (range.first > 0) {
        row = range.between[i];
        return;
    }
    const Doubles start[2] = {start_of(at, i, 0, panel.cols), start_of(at, i, 1, panel.cols)};
    row.sum[0] = Keep::either ? Doubles{} : start[0];
    row.sum[1] = Keep::either ? Doubles{} : start[1];
    row.own.before = magnitudes(row.sum[0], row.sum[1]);
    row.begun.before = magnitudes(start[0], start[1]);
    row.own.linear = row.own.squares = row.begun.linear = row.begun.squares = PanelFloats{};
}

template <class Keep>
[[gnu::always_inline]] inline void finish_row(const ProductRows& at, const Panel& panel,
                                              const SumBound& bound, int i, std::int64_t terms,
                                              RowSums& row) {
    const Doubles value[2] = {row.sum[0] * bound.scale, row.sum[1] * bound.scale};
    put(value, panel.cols, at.sum + i * at.sum_ld);
    if constexpr (Keep::bounds == Bounds::none) return;
    const Doubles start[2] = {start_of(at, i, 0, panel.cols), start_of(at, i, 1, panel.cols)};
    const PanelFloats magnitude = magnitudes(start[0], start[1]);
    add_reversed<Keep::bounds>(float(terms), Keep::either ? PanelFloats{} : magnitude, row.own);
    Doubles total[2] = {total_of<Keep::bounds, 0>(row.own, value[0], bound),
                        total_of<Keep::bounds, 1>(row.own, value[1], bound)};
    if constexpr (Keep::either) {
        add_reversed<Keep::bounds>(float(terms), magnitude, row.begun);
        const Doubles begun[2] = {
            total_of<Keep::bounds, 0>(row.begun, (row.sum[0] + start[0]) * bound.scale, bound),
            total_of<Keep::bounds, 1>(row.begun, (row.sum[1] + start[1]) * bound.scale, bound)};
        for (int v = 0; v < 2; ++v) total[v] = total[v] < begun[v] ? begun[v] : total[v];
    }
    put(total, panel.cols, at.error + i * at.error_ld);
}

template <int rows, class Keep>
void sum_rows(const ProductRows& at, const Panel& panel, const TermRange& range, const SumBound& bound) {
    RowSums row[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) begin_row<Keep>(at, panel, range, i, row[i]);
    // By themselves, so that they stay in registers.
    Doubles sum[rows][2];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        sum[i][0] = row[i].sum[0];
        sum[i][1] = row[i].sum[1];
    }
    const std::int64_t chunks = chunks_of(range.all);
    const auto norm_share = float(bound.norm_share);
    for (std::int64_t first = range.first; first < range.end; first += chunk_terms) {
        const std::int64_t end = first + chunk_terms < range.end ? first + chunk_terms : range.end;
        const std::int64_t chunk = first / chunk_terms;
        const double* b = panel.values + first * panel_cols;
        for (std::int64_t k = first; k < end; ++k, b += panel_cols) {
            const auto b0 = load<Doubles>(b);
            const auto b1 = load<Doubles>(b + product_lanes);
#pragma GCC unroll 8
            for (int i = 0; i < rows; ++i) {
                const double a = at.a[i * at.a_ld + k];
                sum[i][0] = multiply_add(a, b0, sum[i][0]);
                sum[i][1] = multiply_add(a, b1, sum[i][1]);
            }
        }
        if constexpr (Keep::bounds == Bounds::none) continue;
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            const float norm = norm_share * at.norms[i * chunks + chunk];
            const auto col_norms = load<PanelFloats>(panel.norms + chunk * panel_cols);
            add_bounds<Keep::bounds>(col_norms, norm, float(end - first), magnitudes(sum[i][0], sum[i][1]),
                                     row[i].own);
            if constexpr (Keep::either)
                add_bounds<Keep::bounds>(col_norms, norm, float(end - first),
                                         magnitudes(sum[i][0] + start_of(at, i, 0, panel.cols),
                                                    sum[i][1] + start_of(at, i, 1, panel.cols)),
                                         row[i].begun);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
        row[i].sum[0] = sum[i][0];
        row[i].sum[1] = sum[i][1];
        if (range.end < range.all)
            range.between[i] = row[i];
        else
            finish_row<Keep>(at, panel, bound, i, range.all, row[i]);
    }
}

/// Some rows of a panel, from `at` on.
template <class Keep>
void sum_panel(ProductRows at, std::int64_t rows, const Panel& panel, TermRange range,
               const SumBound& bound) {
    const auto advance = [&](std::int64_t by) {
        at = rows_behind(at, by, range.all);
        if (range.between != nullptr) range.between += by;
    };
    for (; rows >= product_rows; rows -= product_rows) {
        sum_rows<product_rows, Keep>(at, panel, range, bound);
        advance(product_rows);
    }
    for (; rows > 0; --rows) {
        sum_rows<1, Keep>(at, panel, range, bound);
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

template <class Keep>
void product_of_panels(const ProductRows& at, std::int64_t rows, std::int64_t cols, const PackedColumns& b,
                       const TermRange& range, const SumBound& bound) {
    Panel panel{0, b.values, b.norms};
    TermRange own = range;
    for (std::int64_t first = 0; first < cols; first += panel_cols) {
        panel.cols = cols - first < panel_cols ? cols - first : panel_cols;
        ProductRows there = at;
        if (there.start != nullptr) there.start += first;
        there.sum += first;
        if (there.error != nullptr) there.error += first;
        sum_panel<Keep>(there, rows, panel, own, bound);
        panel.values += range.all * panel_cols;
        if constexpr (Keep::bounds != Bounds::none) panel.norms += chunks_of(range.all) * panel_cols;
        if (own.between != nullptr) own.between += rows;
    }
}

template <class Keep>
void product_with(View<const double> a, const float* norms, const PackedColumns& b, View<const double> start,
                  const SumBound& bound, View<double> sum, View<double> error) {
    const std::int64_t terms = a.cols;
    const ProductRows all{a.data, a.ld, norms, start.data, start.ld, sum.data, sum.ld, error.data, error.ld};
    if (terms <= terms_at_once)
        return product_of_panels<Keep>(all, sum.rows, sum.cols, b, {0, terms, terms, nullptr}, bound);
    const std::int64_t panels = (sum.cols + panel_cols - 1) / panel_cols;
    auto* const between = new RowSums[std::size_t(rows_at_once * panels)];
    for (std::int64_t row = 0; row < sum.rows; row += rows_at_once) {
        const std::int64_t rows = sum.rows - row < rows_at_once ? sum.rows - row : rows_at_once;
        for (std::int64_t first = 0; first < terms; first += terms_at_once) {
            const std::int64_t end = first + terms_at_once < terms ? first + terms_at_once : terms;
            product_of_panels<Keep>(rows_behind(all, row, terms), rows, sum.cols, b,
                                    {first, end, terms, between}, bound);
        }
    }
    delete[] between;
}

}  // namespace
}  // namespace tilescope
