#include "oracle/formula/row_sum.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "oracle/formula/budget.h"

namespace tilescope {

namespace {

/// Half an ulp of float32 is u times this: the power of two that is not above |sum|. What was computed may be
/// just beyond one where the exact sum is just below it.
double leading_power(double sum) {
    constexpr std::uint64_t exponent = 0x7ff0'0000'0000'0000u;
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(sum * (1 + 0x1p-14)) & exponent);
}

/// Roundings of the additions of a sum, each off by half an ulp of its partial sum, in units of u: certain,
/// and the squares of likely ones.
struct Roundings {
    double certain = 0;
    double squares = 0;

    void add(double partial_sum, double times = 1) {
        const double ulps = leading_power(partial_sum);
        certain += times * ulps;
        squares += times * ulps * ulps;
    }
};

Roundings roundings_of(double start, auto first, auto last) {
    Roundings roundings;
    for (double sum = start; first != last; ++first) roundings.add(sum += *first);
    return roundings;
}

struct RowSum {
    double sum = 0;
    double error = 0;   ///< of its terms
    bool grows = true;  ///< no term is negative or NaN
};

/// Adds the terms of so many rows, each in order. Several rows at once, since each addition waits for the one
/// before it.
template <int rows>
void add_rows(const Estimate& terms, Eigen::Index first, RowSum* sums) {
    const Eigen::Index cols = terms.value.cols();
    const double* values = terms.value.data() + first * cols;
    const double* errors = terms.error.data() + first * cols;
    std::array<RowSum, rows> own;
    std::copy_n(sums + first, rows, own.begin());
    for (Eigen::Index j = 0; j < cols; ++j) {
        for (int row = 0; row < rows; ++row) {
            const double term = values[row * cols + j];
            own[row].sum += term;
            own[row].error += errors[row * cols + j];
            own[row].grows &= term >= 0;
        }
    }
    std::copy_n(own.begin(), rows, sums + first);
}

void add_rows(const Estimate& terms, std::span<RowSum> sums) {
    constexpr int together = 4;
    Eigen::Index row = 0;
    for (; row + together <= std::ssize(sums); row += together) add_rows<together>(terms, row, sums.data());
    for (; row < std::ssize(sums); ++row) add_rows<1>(terms, row, sums.data());
}

/// Those columns of P that a lane adds up.
Estimate columns_of(const HeadCall& call, const Estimate& p, Eigen::Index lane) {
    std::vector<Eigen::Index> columns;
    for (Eigen::Index j = 0; j < p.value.cols(); ++j) {
        if (call.problem.l_lane(j) == lane) columns.push_back(j);
    }
    return {p.value(Eigen::all, columns), p.error(Eigen::all, columns)};
}

/// Bounds of adding up probabilities, in units of u: certain, and likely for a lambda of 1. Their partial
/// sums are taken from the front and from the back, and the larger bound counts; sums by threads have smaller
/// ones.
struct Addition {
    double certain = 0;
    double root_squares = 0;

    double likely(double lambda) const { return lambda * u_f32 * root_squares; }
    bool is_likely(double lambda) const { return lambda > 0 && likely(lambda) < u_f32 * certain; }
};

Addition addition_of(double start, std::span<const double> terms, const RowSum& row) {
    Roundings forward;
    Roundings backward;
    // Sums that only grow have one power of two from end to end, if they have it at both; those of long rows
    // hardly ever reach the next one.
    if (row.grows && leading_power(start) == leading_power(row.sum)) {
        forward.add(row.sum, double(terms.size()));
        backward = forward;
    } else {
        forward = roundings_of(start, terms.begin(), terms.end());
        backward = roundings_of(start, terms.rbegin(), terms.rend());
    }
    return {std::max(forward.certain, backward.certain),
            std::sqrt(std::max(forward.squares, backward.squares))};
}

/// The two bounds, of which the judge takes the smaller one.
void add_alternatives(const Addition& addition, double lambda, BudgetTerms& terms) {
    BudgetTerm certain{"sum of P, certain",
                       fmt::format("{:.3g} * {:.3g}, sum of partial sums", u_f32, addition.certain),
                       u_f32 * addition.certain, "Higham, section 3.1"};
    BudgetTerm likely{"sum of P, probable",
                      fmt::format("lambda {:.3g} * {:.3g} * {:.3g}, root of their squares", lambda, u_f32,
                                  addition.root_squares),
                      addition.likely(lambda), "Higham and Mary, thm 2.4"};
    if (addition.is_likely(lambda)) std::swap(certain, likely);
    terms.add_alternatives(std::move(certain), std::move(likely));
}

/// l of one lane before the tile, and the factor that rescales it.
struct Rescaled {
    double before;
    double before_error;
    double factor;
    double factor_error;

    double value() const { return before * factor; }
    double error() const { return before_error * (factor + factor_error) + std::abs(before) * factor_error; }
};

Rescaled rescaled_of(const Estimate& before, const Estimate& factor, Eigen::Index row, Eigen::Index lane) {
    return {before.value(row, lane), before.error(row, lane), factor.value(row, 0), factor.error(row, 0)};
}

/// What the sum `row`, of `terms` and what was there before, is off by. `inherited` says what row.error is.
template <class Error, class Describe>
Error lane_error(const HeadCall& call, double start, std::span<const double> terms, const RowSum& row,
                 const Describe& inherited) {
    const double lambda = call.rounding.lambda_of(Stage::l);
    const Addition addition = addition_of(start, terms, row);
    Error error;
    error.add(addition.is_likely(lambda) ? addition.likely(lambda) : u_f32 * addition.certain,
              [&](BudgetTerms& into) { add_alternatives(addition, lambda, into); });
    // Rescaling, adding the tile, and taking p_scale off.
    const double unscaling = call.units.l_scale == call.units.p_scale ? 0 : gamma(2, u_f32);
    error.add(u_f32 * std::abs(start) + (u_f32 + unscaling) * std::abs(row.sum), [&] {
        return TermName{"rescaling, adding the tile",
                        fmt::format("roundings of {:.3g} and {:.3g}", std::abs(start), std::abs(row.sum)),
                        "IEEE 754"};
    });
    error.add(row.error, inherited);
    error.add_own_error(u_oracle * std::abs(row.sum));
    error.add_flush_to_zero(flush_to_zero);
    return error;
}

std::span<const double> row_of(const Matrix& matrix, Eigen::Index row) {
    return {matrix.data() + row * matrix.cols(), std::size_t(matrix.cols())};
}

}  // namespace

Estimate row_sum(const HeadCall& call, const Estimate& l_before, const Estimate& factor, const Estimate& p) {
    const Eigen::Index lanes = l_before.value.cols();
    Estimate l = zeros(p.value.rows(), lanes);
    if (!call.bounds && lanes == 1) {
        for (Eigen::Index i = 0; i < p.value.rows(); ++i)
            l.value(i, 0) = l_before.value(i, 0) * factor.value(i, 0) + sum_of_row(p.value, i);
        return l;
    }
    std::vector<RowSum> rows(std::size_t(p.value.rows()));
    for (Eigen::Index lane = 0; lane < lanes; ++lane) {
        const Estimate own = lanes == 1 ? Estimate() : columns_of(call, p, lane);
        const Estimate& terms = lanes == 1 ? p : own;
        const auto before = [&](Eigen::Index i) { return rescaled_of(l_before, factor, i, lane); };
        for (Eigen::Index i = 0; i < p.value.rows(); ++i)
            rows[std::size_t(i)] = {before(i).value(), before(i).error()};
        add_rows(terms, rows);
        for (Eigen::Index i = 0; i < p.value.rows(); ++i) {
            const RowSum& row = rows[std::size_t(i)];
            l.value(i, lane) = row.sum;
            l.error(i, lane) =
                lane_error<ErrorSum>(call, before(i).value(), row_of(terms.value, i), row, nullptr).total();
        }
    }
    return l;
}

BudgetTerms sum_terms(const HeadCall& call, const Estimate& l_before, const Estimate& factor,
                      const Estimate& p, const char* name_of_p, Eigen::Index row, Eigen::Index lane) {
    const Estimate terms = columns_of(call, {p.value.row(row), p.error.row(row)}, lane);
    const Rescaled before = rescaled_of(l_before, factor, row, lane);
    RowSum sum{before.value(), before.error()};
    add_rows(terms, {&sum, 1});
    return lane_error<BudgetTerms>(
        call, before.value(), row_of(terms.value, 0), sum, [&](BudgetTerms& inherited) {
            const double of_p = sum_of_row(terms.error, 0);
            inherited.add(name_of_p, fmt::format("{:.3g}, sum of their errors", of_p), of_p, "from p");
            add_rescaling_terms(before.before, before.before_error, before.factor, before.factor_error, "l",
                                inherited);
        });
}

void add_rescaling_terms(double before, double before_error, double factor, double factor_error,
                         const char* statistic, BudgetTerms& terms) {
    terms.add(fmt::format("{} before, not dumped", statistic),
              fmt::format("{:.3g} * {:.3g}", before_error, factor), before_error * (factor + factor_error),
              fmt::format("from {}", statistic));
    terms.add("factor exp(m before - m)", fmt::format("{:.3g} * {:.3g}", std::abs(before), factor_error),
              std::abs(before) * factor_error, "as p, CUDA guide");
}

}  // namespace tilescope
