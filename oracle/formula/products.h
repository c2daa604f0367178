#pragma once

#include <span>

#include "oracle/formula/budget_terms.h"
#include "oracle/formula/estimate.h"
#include "oracle/formula/head_call.h"
#include "oracle/formula/vector_kernels.h"

namespace tilescope {

inline View<const double> view(const Matrix& m) {
    return {m.data(), m.rows(), m.cols(), m.cols()};
}

inline View<double> view(Matrix& m) {
    return {m.data(), m.rows(), m.cols(), m.cols()};
}

/// Whether neither a NaN nor an infinity is among them.
bool all_finite(const Matrix& values);

/// The columns of b, or its rows where `transposed`, as products read them. Whoever multiplies with b many times
/// keeps them.
class Packed {
 public:
    void pack(const Matrix& b, bool transposed, bool with_norms = true);

    PackedColumns columns() const { return {values_.data(), norms_.data()}; }
    /// Of each column.
    std::span<const double> norms() const { return {whole_norms_.data(), std::size_t(whole_norms_.size())}; }

 private:
    Eigen::ArrayXd values_;
    Eigen::ArrayXf norms_;  ///< of chunks of terms
    Eigen::ArrayXd whole_norms_;
};

/// Norms of the rows of a, which bounds of products take.
class RowNorms {
 public:
    void take(const Matrix& a);

    const float* chunks() const { return chunks_.data(); }
    /// Of each row.
    std::span<const double> norms() const { return {whole_.data(), std::size_t(whole_.size())}; }

 private:
    Eigen::ArrayXf chunks_;
    Eigen::ArrayXd whole_;
};

/// sum += a b, or a b^T where `transposed`.
/// Types: float64.
/// Max error: that of float64 sums of so many terms; budgets allow u_oracle for it.
/// Valid range: every value, as float64 arithmetic has it.
void add_product(const Matrix& a, const Matrix& b, bool transposed, Matrix& sum);

/// (start + a b) * scale, or a b^T where `transposed`, as `accumulation` computes it for `stage`.
struct Product {
    const HeadCall& call;
    Stage stage;
    Accumulation accumulation;
    const Matrix& a;
    const Matrix& b;
    bool transposed;
    double scale = 1;
    const Matrix* start = nullptr;    ///< exact; null: 0
    const RowNorms* norms = nullptr;  ///< of a; null: not known yet
    const Packed* packed = nullptr;   ///< b; null: not packed yet
};

/// The bound of computing it term by term; `after` is the relative bound of what the kernel multiplies the
/// sum with.
/// Types: float64 estimates of sums in the types of `accumulation`.
/// Max error: accumulation_bound() over the partial sums, `after`, u_oracle and flush_to_zero.
/// Valid range: that of accumulation_bound().
Estimate sum_of_products(const Product& product, double after = 0);

/// The parts of that bound at one element, without `after`.
BudgetTerms product_terms(const Product& product, Eigen::Index row, Eigen::Index col);

/// start + a b term by term, for operands that hold NaN or infinities: a hidden element, whose score is -inf
/// and whose a is 0, adds nothing, whatever b holds there. `unit` is the bound of a sum, relative to its
/// partial sums and terms, from the first term or from the last; `a_error` may be null: a is exact.
Estimate guarded_product(const Matrix& start, const Matrix& a, const Matrix* a_error, const Matrix& scores,
                         const Matrix& b, double unit);

/// Who the certain bound of such a sum is from.
std::string source_of(Accumulation accumulation);

}  // namespace tilescope
