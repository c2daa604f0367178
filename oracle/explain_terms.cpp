#include "oracle/explain_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "oracle/budget.h"
#include "oracle/products.h"
#include "oracle/views.h"

namespace tilescope {

namespace {

/// sum |s_i| or sqrt(sum s_i^2) of the partial sums, from the loop that judges.
double partial_sums(const Matrix& a, const Matrix& b, bool transposed, const Matrix& start,
                    const SumBound& bound, Eigen::Index row, Eigen::Index col) {
    Matrix sum = start;
    Matrix error(start.rows(), start.cols());
    vector_kernels().sum_of_products(view(a), view(b), transposed, bound,
                                     {sum.data(), sum.rows(), sum.cols(), sum.cols()},
                                     {error.data(), error.rows(), error.cols(), error.cols()});
    return error(row, col);
}

/// What sum_of_products() adds to the rounding of the sum.
void add_product_extras(const HeadCall& call, Stage stage, const AccumulationBound& bound, const Matrix& a,
                        const Matrix& b, bool transposed, double scale, Eigen::Index row, Eigen::Index col,
                        BudgetTerms& terms) {
    const std::string scaled = scale == 1 ? "" : " * " + in_formula(scale);
    if (bound.operand > 0) {
        const Matrix b_t = transposed ? b : Matrix(b.transpose());
        const double products = a.row(row).cwiseAbs().dot(b_t.row(col).cwiseAbs());
        terms.add("operands cut to tf32",
                  fmt::format("{:.3g} * {:.3g}, sum of |products|{}", bound.operand, products, scaled),
                  bound.operand * scale * products, "Fasi et al. 2021");
    }
    const double underflow = bound.underflow * product_unit(call, stage) * double(a.cols()) * scale;
    if (bound.underflow > flush_to_zero) {
        terms.add("sum in float16 near zero",
                  fmt::format("{} terms * {:.3g}{}", a.cols(), bound.underflow, scaled), underflow,
                  "IEEE 754");
    } else {
        terms.add_flush_to_zero(underflow);
    }
    terms.add_flush_to_zero(flush_to_zero);
}

}  // namespace

void BudgetTerms::add(std::string name, std::string formula, double value, std::string source) {
    if (value == 0) return;
    insert({std::move(name), std::move(formula), value, std::move(source)});
}

void BudgetTerms::insert(BudgetTerm term) {
    const auto same =
        std::ranges::find_if(rows_, [&](const BudgetTerm& row) { return row.name == term.name; });
    if (same == rows_.end()) {
        rows_.push_back(std::move(term));
    } else {
        same->value += term.value;
        same->formula = std::move(term.formula);
    }
}

void BudgetTerms::add_alternatives(BudgetTerm used, BudgetTerm other) {
    if (used.value == 0) return;
    other.used = false;
    rows_.push_back(std::move(used));
    rows_.push_back(std::move(other));
}

void BudgetTerms::add_own_error(double value) {
    if (value != 0)
        insert({"own error of the oracle", "2^-48 of every value", value, "oracle/budget.h", true, true});
}

void BudgetTerms::add_flush_to_zero(double value) {
    if (value != 0)
        insert({"flush to zero", "2^-126 for every result", value, "CUDA guide, -ftz=true", true, true});
}

void BudgetTerms::append(const BudgetTerms& other) {
    for (const BudgetTerm& term : other.rows_) insert(term);
}

void BudgetTerms::scale(double by, const std::string& what) {
    if (by == 1) return;
    for (BudgetTerm& term : rows_) {
        term.value *= by;
        if (!term.in_words) term.formula += " * " + what;
    }
    std::erase_if(rows_, [](const BudgetTerm& term) { return term.value == 0; });
}

double BudgetTerms::total() const {
    double sum = 0;
    for (const BudgetTerm& term : rows_) sum += term.used ? term.value : 0;
    return sum;
}

std::string in_formula(double value) {
    return fmt::format("{:.3g}", value);
}

std::string roundings(double count, double magnitude) {
    return fmt::format("{:.0f} rounding{}: {:.3g} * {:.3g}", count, count == 1 ? "" : "s",
                       gamma(count, u_f32), magnitude);
}

double rounding_count(double relative) {
    return std::round(relative / (u_f32 * (1 + relative)));
}

std::string source_of(Accumulation accumulation) {
    switch (accumulation) {
        case Accumulation::fma_f32:
        case Accumulation::fma_f16:
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

double part_of(double with, double without) {
    const double part = with - without;
    return std::abs(part) > std::abs(with) * 0x1p-44 ? part : 0;
}

void add_product_terms(const HeadCall& call, Stage stage, Accumulation accumulation, const Matrix& a,
                       const Matrix& b, bool transposed, const Matrix& start, double scale, Eigen::Index row,
                       Eigen::Index col, BudgetTerms& terms) {
    const AccumulationBound bound = accumulation_bound(call.rounding, stage, accumulation);
    const Estimate judged = sum_of_products(call, stage, accumulation, a, b, transposed, start, scale);
    BudgetTerms others;
    add_product_extras(call, stage, bound, a, b, transposed, scale, row, col, others);
    others.add_own_error(u_oracle * std::abs(judged.value(row, col)));

    const double linear = partial_sums(a, b, transposed, start,
                                       {.per_partial_sum = 1, .norm_share = bound.norm_share}, row, col);
    const std::string scaled = scale == 1 ? "" : " * " + in_formula(scale);
    const BudgetTerm certain{
        "sum of products, certain",
        fmt::format("{:.3g} * {:.3g}, sum of |partial sums|{}", bound.per_partial_sum, linear, scaled),
        bound.per_partial_sum * scale * linear, source_of(accumulation)};
    if (bound.per_root_squares > 0) {
        // A certain bound that is never the smaller one.
        const double root = partial_sums(
            a, b, transposed, start,
            {.per_partial_sum = 1e300, .per_root_squares = 1, .norm_share = bound.norm_share}, row, col);
        const double lambda = call.rounding.lambda_of(stage);
        const BudgetTerm probable{"sum of products, probable",
                                  fmt::format("lambda {:.3g} * {:.3g} * {:.3g}, root of their squares{}",
                                              lambda, bound.per_root_squares / lambda, root, scaled),
                                  bound.per_root_squares * scale * root, "Higham and Mary, thm 2.4"};
        // The one that the judged bound holds.
        const double rounding = judged.error(row, col) - others.total();
        const bool takes_probable = std::abs(rounding - probable.value) < std::abs(rounding - certain.value);
        terms.add_alternatives(takes_probable ? probable : certain, takes_probable ? certain : probable);
    } else {
        terms.add(certain.name, certain.formula, certain.value, certain.source);
    }
    terms.append(others);
}

BudgetTerms operand_terms(const HeadCall& call, Stage stage, double expected, double error) {
    const Units& u = call.units;
    const Dtype cast = stage == Stage::q ? u.q_cast : stage == Stage::k ? u.k_cast : u.v_cast;
    BudgetTerms terms;
    // Copies round nothing.
    if (error == 0) return terms;
    const double magnitude = std::abs(expected);
    terms.add("product with the descale", fmt::format("{:.3g} * {:.3g}", u_f32, magnitude), u_f32 * magnitude,
              "IEEE 754");
    terms.add(fmt::format("cast to {}", dtype_info(cast).name),
              cast == Dtype::f32 ? ""
                                 : fmt::format("{:.3g} * {:.3g} + {:.3g}", unit_roundoff(cast), magnitude,
                                               half_quantum(cast)),
              cast_bound(cast, magnitude * (1 + u_f32)), "IEEE 754");
    terms.add_flush_to_zero(flush_to_zero);
    return terms;
}

}  // namespace tilescope
