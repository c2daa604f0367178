#pragma once

#include <cstdint>
#include <span>

namespace tilescope {

/// Row-major matrix in somebody's memory; rows are `ld` elements apart.
template <class T>
struct View {
    T* data = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t ld = 0;
};

/// unwritten_bits of a dump: what else a header of the dump has must not be compiled for an instruction set.
inline constexpr std::uint32_t unwritten_word = 0x7fd17e5c;

/// Terms of a sum of products are taken in chunks of this many.
inline constexpr std::int64_t chunk_terms = 16;

/// What the error bound of a sum of products is made of; s_i is the partial sum after term i, and each sum over i is at least
/// that of as many partial sums as large as the start or the whole sum.
struct SumBound {
    double per_partial_sum = 0;   ///< times sum |s_i|
    double per_root_squares = 0;  ///< times sqrt(sum s_i^2), where that is smaller; 0: not looked at
    double per_value = 0;         ///< times |sum * scale|
    double constant = 0;
    double scale = 1;  ///< the sum is multiplied with it at the end
    /// The partial sums within a chunk of terms are bounded by those at its ends plus this share of the
    /// product of its norms: 0.5 bounds the partial sums, 1 bounds the chunk's terms as well.
    double norm_share = 0.5;
    /// The start is not in the sum, and the bound holds whether a kernel begins with it or adds it at the end.
    bool start_may_be_last = false;
};

/// Columns of b as products read them, of VectorKernels::pack.
struct PackedColumns {
    const double* values = nullptr;
    const float* norms = nullptr;  ///< null: without bounds
};

/// How far off exp(s - m) may be, apart from the errors of s and m.
struct ExponentialBound {
    double argument_difference = 0;  ///< error of the argument: this times |s - m|
    double argument_terms = 0;       ///< plus this times |s| + |m|
    double function = 0;             ///< relative error of the exponential
    double function_argument = 0;    ///< plus this times |s - m|
    double most_above_m = 0;         ///< s is at most m plus this, so that no bound is larger than exp of it
};

/// Of a row of scores.
struct RowExtremes {
    double most = 0;   ///< the largest; NaN where one is NaN
    double lower = 0;  ///< the largest of score - error
    double upper = 0;  ///< the largest of score + error
};

/// Whether a tile matches, and its largest deviations if it does.
struct MatchSummary {
    bool matches = false;
    bool tells = false;  ///< as tells() of its tolerance and spread
    double max_abs = 0;
    std::int32_t max_ulp = 0;  ///< of float32
    double budget_used = 0;    ///< largest difference / tolerance, or `used` where that is larger
};

/// How far values are from what was expected of them.
struct Distances {
    double largest = 0;
    bool any = false;      ///< one was compared: written, and a number was expected
    bool unknown = false;  ///< one of these is NaN
};

/// The loops that take the oracle's time, compiled for one instruction set.
struct VectorKernels {
    const char* instruction_set;

    /// Columns that are packed together.
    std::int64_t panel_cols;

    /// The columns of b, or its rows where `transposed`, for products of the same instruction set: `values`,
    /// [panels][terms][panel_cols]; norms of each chunk's terms, [panels][chunks][panel_cols]; and of all
    /// terms, [panels][panel_cols]. Where norms are null there are none.
    void (*pack)(View<const double> b, bool transposed, double* values, float* norms, double* whole_norms);

    /// Of rows: of each chunk's terms, [rows][chunks], and of all terms, [rows], unless that is null.
    void (*norms_of_rows)(View<const double> a, float* norms, double* whole_norms);

    /// sum = (start + a b) * scale and error = the bound; no `start` is 0. `norms` are those of the chunks of
    /// a's rows. Within a chunk of terms |partial sum| <= max(|before|, |after|) + |a_c| |b_c| / 2: a partial
    /// sum is reached from either end of the chunk, and the products of the norms of both ways (Cauchy and
    /// Schwarz) add up to at most that of the chunk.
    void (*sum_of_products)(View<const double> a, const float* norms, const PackedColumns& b,
                            View<const double> start, const SumBound& bound, View<double> sum,
                            View<double> error);

    /// product(i, j) = scale a_i b_j.
    void (*outer_product)(const double* a, const double* b, double scale, View<double> product);

    /// sum += a b.
    void (*add_product)(View<const double> a, const PackedColumns& b, View<double> sum);

    /// value = exp(s - m) and its bound, from s and m (one a row) and their errors; 0 and 0 where s is -inf.
    /// A null error is not computed.
    void (*exponentials)(View<const double> s, View<const double> s_error, const double* m,
                         const double* m_error, const ExponentialBound& bound, View<double> value,
                         View<double> error);

    /// Each score is off by its error and by `relative` times its magnitude; -inf by nothing.
    RowExtremes (*row_extremes)(std::span<const double> s, const double* error, double relative);

    /// Whether neither a NaN nor an infinity is among them.
    bool (*all_finite)(std::span<const double> values);

    /// Whether every error is finite and below what is possible at all, `spread`: unless that is 0, or null.
    bool (*tells)(std::span<const double> error, const double* spread);

    /// |got - expected * by| of the elements that were written and of which a number is expected.
    Distances (*distances)(std::span<const float> got, const double* expected, double by);

    /// The values that were written, without errors, and what is estimated in place of the others.
    void (*settle)(std::span<const float> got, const double* estimated, const double* estimated_error,
                   double* value, double* error);

    /// The same values as float64.
    void (*widen)(std::span<const float> values, double* wide);

    /// Whether |got - expected| <= tolerance everywhere; both infinities alike match, NaN never. `used` is the
    /// largest difference / tolerance before: where no element exceeds it, nothing is divided.
    MatchSummary (*match)(std::span<const float> got, const double* expected, const double* tolerance,
                          const double* spread, double used);
};

/// The kernels for the best instruction set that this processor has.
const VectorKernels& vector_kernels();

/// All that this processor can run, for tests.
std::span<const VectorKernels* const> runnable_vector_kernels();

}  // namespace tilescope
