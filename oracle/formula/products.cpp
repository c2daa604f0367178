#include "oracle/formula/products.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "oracle/formula/budget.h"

namespace tilescope {

namespace {

std::int64_t chunks_of(std::int64_t terms) {
    return (terms + chunk_terms - 1) / chunk_terms;
}

/// Valid until the thread asks again.
PackedColumns packed_now(const Matrix& b, bool transposed, bool with_norms) {
    thread_local Packed packed;
    packed.pack(b, transposed, with_norms);
    return packed.columns();
}

PackedColumns packed_of(const Product& p, bool with_norms) {
    return p.packed != nullptr ? p.packed->columns() : packed_now(p.b, p.transposed, with_norms);
}

const float* norms_of(const Product& p) {
    if (p.norms != nullptr) return p.norms->chunks();
    thread_local RowNorms norms;
    norms.take(p.a);
    return norms.chunks();
}

Estimate bounded(const Product& p, const SumBound& bound) {
    Matrix value(p.a.rows(), p.transposed ? p.b.rows() : p.b.cols());
    Matrix error(value.rows(), value.cols());
    const View<const double> start = p.start == nullptr ? View<const double>{} : view(*p.start);
    vector_kernels().sum_of_products(view(p.a), norms_of(p), packed_of(p, true), start, bound, view(value),
                                     view(error));
    return {std::move(value), std::move(error)};
}

/// What the terms of a sum lose near zero, before its scale.
double underflow_of(const Product& p, const AccumulationBound& bound) {
    return bound.underflow * product_unit(p.call, p.stage) * double(p.a.cols());
}

/// The rounding of the sum: the certain bound, and the probable one where there is one. `judged` is what the
/// judge allows for it.
void add_rounding_terms(const Product& p, const AccumulationBound& bound, double judged, Eigen::Index row,
                        Eigen::Index col, const std::string& scaled, BudgetTerms& terms) {
    const double linear = bounded(p, {.per_partial_sum = 1, .norm_share = bound.norm_share}).error(row, col);
    const BudgetTerm certain{
        "sum of products, certain",
        fmt::format("{:.3g} * {:.3g}, sum of |partial sums|{}", bound.per_partial_sum, linear, scaled),
        bound.per_partial_sum * p.scale * linear, source_of(p.accumulation)};
    if (bound.per_root_squares == 0) {
        terms.add(certain.name, certain.formula, certain.value, certain.source);
        return;
    }
    // A certain bound that is never the smaller one.
    const double root =
        bounded(p, {.per_partial_sum = 1e300, .per_root_squares = 1, .norm_share = bound.norm_share})
            .error(row, col);
    const double lambda = p.call.rounding.lambda_of(p.stage);
    const BudgetTerm probable{"sum of products, probable",
                              fmt::format("lambda {:.3g} * {:.3g} * {:.3g}, root of their squares{}", lambda,
                                          bound.per_root_squares / lambda, root, scaled),
                              bound.per_root_squares * p.scale * root, "Higham and Mary, thm 2.4"};
    const bool takes_probable = std::abs(judged - probable.value) < std::abs(judged - certain.value);
    terms.add_alternatives(takes_probable ? probable : certain, takes_probable ? certain : probable);
}

}  // namespace

void Packed::pack(const Matrix& b, bool transposed, bool with_norms) {
    const std::int64_t width = vector_kernels().panel_cols;
    const std::int64_t terms = transposed ? b.cols() : b.rows();
    const std::int64_t cols = ((transposed ? b.rows() : b.cols()) + width - 1) / width * width;
    values_.resize(cols * terms);
    norms_.resize(with_norms ? cols * chunks_of(terms) : 0);
    whole_norms_.resize(with_norms ? cols : 0);
    vector_kernels().pack(view(b), transposed, values_.data(), with_norms ? norms_.data() : nullptr,
                          whole_norms_.data());
}

void RowNorms::take(const Matrix& a) {
    chunks_.resize(a.rows() * chunks_of(a.cols()));
    whole_.resize(a.rows());
    vector_kernels().norms_of_rows(view(a), chunks_.data(), whole_.data());
}

bool all_finite(const Matrix& values) {
    return vector_kernels().all_finite({values.data(), std::size_t(values.size())});
}

void add_product(const Matrix& a, const Matrix& b, bool transposed, Matrix& sum) {
    vector_kernels().add_product(view(a), packed_now(b, transposed, false), view(sum));
}

Estimate sum_of_products(const Product& p, double after) {
    if (!p.call.bounds) {
        Estimate sum = zeros(p.a.rows(), p.transposed ? p.b.rows() : p.b.cols());
        if (p.start != nullptr) sum.value = *p.start;
        vector_kernels().add_product(view(p.a), packed_of(p, false), view(sum.value));
        if (p.scale != 1) sum.value *= p.scale;
        return sum;
    }
    const AccumulationBound bound = accumulation_bound(p.call.rounding, p.stage, p.accumulation);
    // The root of the squares is at least the sum / sqrt(terms): too short a sum gains nothing by it.
    const double gain = bound.per_partial_sum * std::sqrt(double(p.a.cols()));
    const bool is_worth_it = bound.per_root_squares > 0 && 1.25 * bound.per_root_squares < gain;
    Estimate sum = bounded(p, {.per_partial_sum = bound.per_partial_sum * p.scale,
                               .per_root_squares = is_worth_it ? bound.per_root_squares * p.scale : 0,
                               .per_value = u_oracle + after,
                               .constant = underflow_of(p, bound) * p.scale + flush_to_zero,
                               .scale = p.scale,
                               .norm_share = bound.norm_share});
    if (bound.operand > 0)
        add_product(p.a.cwiseAbs() * (bound.operand * p.scale), p.b.cwiseAbs(), p.transposed, sum.error);
    return sum;
}

BudgetTerms product_terms(const Product& p, Eigen::Index row, Eigen::Index col) {
    const AccumulationBound bound = accumulation_bound(p.call.rounding, p.stage, p.accumulation);
    const Estimate judged = sum_of_products(p);
    const std::string scaled = p.scale == 1 ? "" : " * " + in_formula(p.scale);
    BudgetTerms others;
    if (bound.operand > 0) {
        const Matrix b_t = p.transposed ? p.b : Matrix(p.b.transpose());
        const double products = p.a.row(row).cwiseAbs().dot(b_t.row(col).cwiseAbs());
        others.add("operands cut to tf32",
                   fmt::format("{:.3g} * {:.3g}, sum of |products|{}", bound.operand, products, scaled),
                   bound.operand * p.scale * products, "Fasi et al. 2021");
    }
    const double underflow = underflow_of(p, bound) * p.scale;
    if (bound.underflow > flush_to_zero) {
        others.add(p.accumulation == Accumulation::fma_bf16 ? "sum in bfloat16 near zero"
                                                            : "sum in float16 near zero",
                   fmt::format("{} terms * {:.3g}{}", p.a.cols(), bound.underflow, scaled), underflow,
                   "IEEE 754");
    } else {
        others.add_flush_to_zero(underflow);
    }
    others.add_flush_to_zero(flush_to_zero);
    others.add_own_error(u_oracle * std::abs(judged.value(row, col)));
    BudgetTerms terms;
    add_rounding_terms(p, bound, judged.error(row, col) - others.total(), row, col, scaled, terms);
    terms.append(others);
    return terms;
}

Estimate guarded_product(const Matrix& start, const Matrix& a, const Matrix* a_error, const Matrix& scores,
                         const Matrix& b, double unit) {
    Estimate sum{start, Matrix::Zero(start.rows(), start.cols())};
    for (Eigen::Index i = 0; i < a.rows(); ++i) {
        Eigen::RowVectorXd partial_sums = Eigen::RowVectorXd::Zero(start.cols());
        Eigen::RowVectorXd terms = partial_sums;
        double count = 0;
        for (Eigen::Index j = 0; j < a.cols(); ++j) {
            if (scores(i, j) == -std::numeric_limits<double>::infinity() && a(i, j) == 0) continue;
            const Eigen::RowVectorXd term = a(i, j) * b.row(j);
            sum.value.row(i) += term;
            partial_sums += sum.value.row(i).cwiseAbs();
            terms += term.cwiseAbs();
            count += 1;
            if (a_error != nullptr) sum.error.row(i) += (*a_error)(i, j) * b.row(j).cwiseAbs();
        }
        if (count == 0) continue;
        // As vector kernels bound terms that are added from the last to the first.
        const Eigen::RowVectorXd reversed =
            count * start.row(i).cwiseAbs().cwiseMax(sum.value.row(i).cwiseAbs());
        sum.error.row(i) += unit * (partial_sums.cwiseMax(reversed) + terms);
    }
    return sum;
}

std::string source_of(Accumulation accumulation) {
    switch (accumulation) {
        case Accumulation::fma_f32:
        case Accumulation::fma_f16:
        case Accumulation::fma_bf16:
            return "Higham, section 3.1";
        case Accumulation::tensor_core_f32:
        case Accumulation::tensor_core_f16:
        case Accumulation::tensor_core_tf32:
            return "Khattak, Mikaitis 2025";
        case Accumulation::tensor_core_fp8:
            return "DeepSeek-V3, 3.3.2";
    }
    return "";
}

}  // namespace tilescope
