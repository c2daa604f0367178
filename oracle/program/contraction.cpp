#include "oracle/program/contraction.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/formula/budget.h"
#include "oracle/formula/products.h"

namespace tilescope {

namespace {

/// Axes of numbers in the order in which a sum of products goes through them, and how many elements each kind has.
struct Order {
    std::vector<int> axes;
    std::vector<std::int64_t> extents;
    std::int64_t size = 1;

    void add(const Numbers& numbers, const std::vector<int>& of) {
        for (const int axis : of) {
            axes.push_back(axis);
            extents.push_back(numbers.extents[std::size_t(numbers.position_of(axis))]);
            size *= extents.back();
        }
    }
};

std::vector<int> axes_where(const Numbers& numbers, const auto& wanted) {
    std::vector<int> axes;
    std::ranges::copy_if(numbers.axes, std::back_inserter(axes), wanted);
    return axes;
}

bool has(const std::vector<int>& axes, int axis) {
    return std::ranges::find(axes, axis) != axes.end();
}

Matrix matrix_at(const std::vector<double>& values, std::int64_t first, std::int64_t rows,
                 std::int64_t cols) {
    return Eigen::Map<const Matrix>(values.data() + first, rows, cols);
}

SumBound bound_of(const SumRounding& rounding, std::int64_t terms, const SumModel& model) {
    return {.per_partial_sum = rounding.per_partial_sum,
            .per_root_squares = model.lambda * rounding.to_nearest,
            .per_value = u_oracle,
            .constant = rounding.underflow * double(terms) + flush_to_zero,
            .norm_share = rounding.norm_share};
}

/// Sums of one row of terms, forwards; `start`: what may stand before the first term.
Uncertain sum_of_row(const double* terms, const double* errors, std::int64_t count,
                     const SumRounding& rounding, double lambda, double start) {
    double sum = 0;
    double linear = 0;
    double squares = 0;
    double carried = 0;
    double magnitudes = 0;
    for (std::int64_t i = 0; i < count; ++i) {
        sum += terms[i];
        magnitudes += std::abs(terms[i]);
        const double most = std::max(std::abs(sum), std::abs(start + sum));
        linear += most;
        squares += most * most;
        if (errors != nullptr) carried += errors[i];
    }
    if (!std::isfinite(sum)) return {sum, std::isinf(carried) ? carried : 0};
    // From the back no partial sum of terms of one sign is larger than the whole.
    const double whole = std::max(std::abs(sum), std::abs(start + sum));
    linear = std::max(linear, double(count) * whole);
    squares = std::max(squares, double(count) * whole * whole);
    // What truncates, truncates the terms of a block as well.
    if (rounding.to_nearest == 0) linear += rounding.norm_share * magnitudes;
    double bound = rounding.per_partial_sum * linear;
    const double probable = lambda * rounding.to_nearest * std::sqrt(squares);
    if (lambda > 0 && rounding.to_nearest > 0 && squares > 0) bound = std::min(bound, probable);
    // Sums of zeros are exact.
    if (linear > 0)
        bound += rounding.operand * magnitudes + rounding.underflow * double(count) + flush_to_zero;
    return {sum, carried + bound + u_oracle * linear};
}

/// What a sum begins with, along the axes of its result: 0 where it has none, or one along others, or is no number.
Numbers start_along(const Numbers* start, const std::vector<int>& axes,
                    const std::vector<std::int64_t>& extents) {
    // A state has one index of the axis that it goes over.
    const bool fits =
        start != nullptr && std::ranges::all_of(start->axes, [&](int axis) {
            return has(axes, axis) || start->extents[std::size_t(start->position_of(axis))] == 1;
        });
    Numbers along = fits ? laid_out(*start, axes, extents) : Numbers::along(axes, extents);
    for (double& value : along.value) {
        if (!std::isfinite(value)) value = 0;
    }
    return along;
}

/// What `make` makes of each row of terms along `axes`.
template <class Make>
Numbers reduced(const Numbers& terms, const std::vector<int>& axes, const Make& make) {
    const auto is_kept = [&](int axis) { return !has(axes, axis); };
    Order kept;
    kept.add(terms, axes_where(terms, is_kept));
    Order all = kept;
    all.size = 1;
    all.add(terms, axes_where(terms, [&](int axis) { return has(axes, axis); }));
    const std::int64_t count = all.size;
    const Numbers rows = laid_out(terms, all.axes, all.extents);
    Numbers result = Numbers::along(kept.axes, kept.extents);
    result.error.resize(result.value.size());
    for (std::int64_t i = 0; i < result.size(); ++i) {
        const double* const errors = rows.is_exact() ? nullptr : rows.error.data() + i * count;
        const Uncertain made = make(rows.value.data() + i * count, errors, count, i);
        result.value[std::size_t(i)] = made.value;
        result.error[std::size_t(i)] = made.error;
    }
    return result;
}

Uncertain largest_of_row(const double* terms, const double* errors, std::int64_t count, std::int64_t) {
    double most = -std::numeric_limits<double>::infinity();
    double upper = most;
    double lower = most;
    for (std::int64_t i = 0; i < count; ++i) {
        const double error = errors == nullptr ? 0 : errors[i];
        if (std::isnan(terms[i])) return {terms[i], error};
        most = std::max(most, terms[i]);
        upper = std::max(upper, terms[i] + error);
        lower = std::max(lower, terms[i] - error);
    }
    if (!std::isfinite(most)) return {most, upper == most ? 0 : std::numeric_limits<double>::infinity()};
    return {most, std::max(upper - most, most - lower)};
}

Numbers negated(Numbers numbers) {
    for (double& number : numbers.value) number = -number;
    return numbers;
}

}  // namespace

Numbers sum_of_products(const Numbers& x, const Numbers& y, const std::vector<int>& axes,
                        Accumulation accumulation, const SumModel& model, const Numbers* start) {
    const std::vector<int> shared =
        axes_where(x, [&](int axis) { return has(y.axes, axis) && !has(axes, axis); });
    const std::vector<int> of_x = axes_where(x, [&](int axis) { return !has(y.axes, axis); });
    const std::vector<int> of_y = axes_where(y, [&](int axis) { return !has(x.axes, axis); });
    const std::vector<int> along = axes_where(x, [&](int axis) { return has(axes, axis); });
    Order batch;
    Order rows;
    Order cols;
    Order terms;
    batch.add(x, shared);
    rows.add(x, of_x);
    cols.add(y, of_y);
    terms.add(x, along);
    const auto joined = [](std::initializer_list<const Order*> orders) {
        Order all;
        for (const Order* const order : orders) {
            all.axes.insert(all.axes.end(), order->axes.begin(), order->axes.end());
            all.extents.insert(all.extents.end(), order->extents.begin(), order->extents.end());
        }
        return all;
    };
    const Order x_order = joined({&batch, &rows, &terms});
    const Order y_order = joined({&batch, &cols, &terms});
    const Order sum_order = joined({&batch, &rows, &cols});
    const Numbers a_all = laid_out(x, x_order.axes, x_order.extents);
    const Numbers b_all = laid_out(y, y_order.axes, y_order.extents);
    Numbers sums = Numbers::along(sum_order.axes, sum_order.extents);
    sums.error.resize(sums.value.size());
    const SumRounding rounding = sum_rounding(model.tensor_core, accumulation);
    const SumBound bound = bound_of(rounding, terms.size, model);
    const Numbers starts =
        start == nullptr ? Numbers() : start_along(start, sum_order.axes, sum_order.extents);
    RowNorms norms;
    Packed packed;
    for (std::int64_t i = 0; i < batch.size; ++i) {
        elements_computed() += rows.size * cols.size * terms.size / 16;
        const Matrix a = matrix_at(a_all.value, i * rows.size * terms.size, rows.size, terms.size);
        const Matrix b = matrix_at(b_all.value, i * cols.size * terms.size, cols.size, terms.size);
        norms.take(a);
        packed.pack(b, true);
        Matrix value(rows.size, cols.size);
        Matrix error(rows.size, cols.size);
        vector_kernels().sum_of_products(view(std::as_const(a)), norms.chunks(), packed.columns(), {}, bound,
                                         view(value), view(error));
        if (start != nullptr) {
            const Matrix begun = matrix_at(starts.value, i * rows.size * cols.size, rows.size, cols.size);
            Matrix sum(rows.size, cols.size);
            Matrix of_begun(rows.size, cols.size);
            vector_kernels().sum_of_products(view(std::as_const(a)), norms.chunks(), packed.columns(),
                                             view(begun), bound, view(sum), view(of_begun));
            error = error.cwiseMax(of_begun);
        }
        if (rounding.operand > 0) add_product(a.cwiseAbs() * rounding.operand, b.cwiseAbs(), true, error);
        if (!b_all.is_exact()) {
            const Matrix b_error = matrix_at(b_all.error, i * cols.size * terms.size, cols.size, terms.size);
            add_product(a.cwiseAbs(), b_error, true, error);
        }
        if (!a_all.is_exact()) {
            const Matrix a_error = matrix_at(a_all.error, i * rows.size * terms.size, rows.size, terms.size);
            Matrix b_most = b.cwiseAbs();
            if (!b_all.is_exact())
                b_most += matrix_at(b_all.error, i * cols.size * terms.size, cols.size, terms.size);
            add_product(a_error, b_most, true, error);
        }
        const std::int64_t first = i * rows.size * cols.size;
        for (std::int64_t k = 0; k < rows.size * cols.size; ++k) {
            const double number = value.data()[k];
            sums.value[std::size_t(first + k)] = number;
            // What an error of infinity or NaN says of a number: nothing is known of it.
            const double off =
                std::isnan(error.data()[k]) ? std::numeric_limits<double>::infinity() : error.data()[k];
            sums.error[std::size_t(first + k)] = std::isfinite(number) || std::isinf(off) ? off : 0;
        }
    }
    std::vector<int> sorted = sum_order.axes;
    std::ranges::sort(sorted);
    std::vector<std::int64_t> extents;
    for (const int axis : sorted) extents.push_back(sums.extents[std::size_t(sums.position_of(axis))]);
    return laid_out(sums, sorted, extents);
}

Numbers sum_of_terms(const Numbers& terms, const std::vector<int>& axes, Accumulation accumulation,
                     const SumModel& model, const Numbers* start) {
    const SumRounding rounding = sum_rounding(model.tensor_core, accumulation);
    Order kept;
    kept.add(terms, axes_where(terms, [&](int axis) { return !has(axes, axis); }));
    const Numbers starts = start_along(start, kept.axes, kept.extents);
    return reduced(
        terms, axes, [&](const double* row, const double* errors, std::int64_t count, std::int64_t i) {
            return sum_of_row(row, errors, count, rounding, model.lambda, starts.value[std::size_t(i)]);
        });
}

Numbers largest_of(const Numbers& terms, const std::vector<int>& axes) {
    return reduced(terms, axes, largest_of_row);
}

Numbers smallest_of(const Numbers& terms, const std::vector<int>& axes) {
    return negated(largest_of(negated(terms), axes));
}

}  // namespace tilescope
