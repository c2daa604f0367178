#include "oracle/program/contraction.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <utility>

#include "oracle/formula/budget.h"
#include "oracle/formula/vector_kernels.h"

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

/// Numbers along these axes in this order: themselves where they are.
const Numbers& in_order(const Numbers& numbers, const Order& order, Numbers& room) {
    if (numbers.axes == order.axes) return numbers;
    return room = laid_out(numbers, order.axes, order.extents);
}

/// Columns of b as products read them: they stand in rows of memory, or its columns do.
class Columns {
 public:
    Columns(std::int64_t cols, std::int64_t terms, bool are_rows)
        : rows_(are_rows ? cols : terms), cols_(are_rows ? terms : cols), are_rows_(are_rows) {
        const std::int64_t width = vector_kernels().panel_cols;
        const std::int64_t panels = (cols + width - 1) / width;
        values_.make_room(std::size_t(panels * width * terms));
        norms_.resize(std::size_t(panels * width * ((terms + chunk_terms - 1) / chunk_terms)));
        whole_norms_.make_room(std::size_t(panels * width));
    }

    PackedColumns take(const double* b) {
        vector_kernels().pack({const_cast<double*>(b), rows_, cols_, cols_}, are_rows_, values_.data(),
                              norms_.data(), whole_norms_.data());
        return {values_.data(), norms_.data()};
    }

 private:
    std::int64_t rows_;
    std::int64_t cols_;
    bool are_rows_;
    Reals values_;
    std::vector<float> norms_;
    Reals whole_norms_;
};

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
    Numbers result = Numbers::room(kept.axes, kept.extents);
    result.error.make_room(result.value.size());
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

namespace {

/// The sum of x y along axes as a product of matrices, for each index of the axes that both have.
class ProductOfMatrices {
 public:
    ProductOfMatrices(const Numbers& x, const Numbers& y, const std::vector<int>& axes) : x_(x), y_(y) {
        batch_.add(x, axes_where(x, [&](int axis) { return has(y.axes, axis) && !has(axes, axis); }));
        rows_.add(x, axes_where(x, [&](int axis) { return !has(y.axes, axis); }));
        cols_.add(y, axes_where(y, [&](int axis) { return !has(x.axes, axis); }));
        terms_.add(x, axes_where(x, [&](int axis) { return has(axes, axis); }));
        sums_ = joined({&batch_, &rows_, &cols_});
        // As y lies in memory, where columns lie there together.
        y_order_ = joined({&batch_, &terms_, &cols_});
        are_rows_ = y_order_.axes != y.axes;
        if (are_rows_) y_order_ = joined({&batch_, &cols_, &terms_});
    }

    Numbers sum(const SumRounding& rounding, const SumModel& model, const Numbers* start) const {
        Numbers room_x;
        Numbers room_y;
        Numbers room_start;
        const Numbers& a = in_order(x_, joined({&batch_, &rows_, &terms_}), room_x);
        const Numbers& b = in_order(y_, y_order_, room_y);
        if (start != nullptr) room_start = start_along(start, sums_.axes, sums_.extents);
        const bool is_begun = start != nullptr && std::ranges::any_of(room_start.value, [](double number) {
                                  return number != 0;
                              });
        Numbers sums = Numbers::room(sums_.axes, sums_.extents);
        sums.error.make_room(sums.value.size());
        const std::int64_t size = rows_.size * cols_.size;
        Columns columns(cols_.size, terms_.size, are_rows_);
        for (std::int64_t i = 0; i < batch_.size; ++i) {
            elements_computed() += size * terms_.size / 16;
            const Piece piece{rows_of(a.value, i),
                              columns.take(b.value.data() + i * cols_.size * terms_.size),
                              matrix(sums.value.data() + i * size), matrix(sums.error.data() + i * size)};
            add_rounded(piece, is_begun ? room_start.value.data() + i * size : nullptr,
                        bound_of(rounding, terms_.size, model));
            add_operand_errors(a, b, i, rounding.operand, columns, piece.error);
        }
        settle_unknown(sums);
        Order sorted = sums_;
        std::ranges::sort(sorted.axes);
        for (std::size_t i = 0; i < sorted.axes.size(); ++i)
            sorted.extents[i] = sums.extents[std::size_t(sums.position_of(sorted.axes[i]))];
        return laid_out(std::move(sums), sorted.axes, sorted.extents);
    }

 private:
    struct Piece {
        View<const double> a;
        PackedColumns b;
        View<double> sum;
        View<double> error;
    };

    static Order joined(std::initializer_list<const Order*> orders) {
        Order all;
        for (const Order* const order : orders) {
            all.axes.insert(all.axes.end(), order->axes.begin(), order->axes.end());
            all.extents.insert(all.extents.end(), order->extents.begin(), order->extents.end());
        }
        return all;
    }

    View<const double> rows_of(const Reals& values, std::int64_t i) const {
        return {values.data() + i * rows_.size * terms_.size, rows_.size, terms_.size, terms_.size};
    }
    View<double> matrix(double* first) const { return {first, rows_.size, cols_.size, cols_.size}; }

    /// The sum, and what its roundings come to: with what it may begin with, too.
    void add_rounded(const Piece& piece, const double* start, SumBound bound) const {
        std::vector<float> norms(std::size_t(rows_.size * ((terms_.size + chunk_terms - 1) / chunk_terms)));
        vector_kernels().norms_of_rows(piece.a, norms.data(), nullptr);
        const View<const double> begun{start, rows_.size, cols_.size, cols_.size};
        bound.start_may_be_last = start != nullptr;
        vector_kernels().sum_of_products(piece.a, norms.data(), piece.b,
                                         start == nullptr ? View<const double>{} : begun, bound, piece.sum,
                                         piece.error);
    }

    /// What operands lose, and what they may be off by. It overwrites the columns.
    void add_operand_errors(const Numbers& a, const Numbers& b, std::int64_t i, double operand,
                            Columns& columns, View<double> error) const {
        const std::int64_t a_first = i * rows_.size * terms_.size;
        const std::int64_t b_first = i * cols_.size * terms_.size;
        if (rows_.size == 1 && !are_rows_ && operand == 0 && !a.is_exact() && !b.is_exact())
            return element_kernels().add_errors_of_row({a.value.data() + a_first, a.error.data() + a_first},
                                                       {b.value.data() + b_first, b.error.data() + b_first},
                                                       terms_.size, cols_.size, error.data);
        if (operand == 0 && a.is_exact() && b.is_exact()) return;
        Reals left;
        Reals right;
        left.make_room(std::size_t(rows_.size * terms_.size));
        right.make_room(std::size_t(cols_.size * terms_.size));
        const auto add = [&] {
            vector_kernels().add_product(rows_of(left, 0), columns.take(right.data()), error);
        };
        const auto take_magnitudes = [](const Reals& from, std::int64_t first, Reals& to) {
            for (std::size_t k = 0; k < to.size(); ++k) to[k] = std::abs(from[std::size_t(first) + k]);
        };
        const auto add_errors = [](const Numbers& of, std::int64_t first, Reals& to) {
            if (of.is_exact()) return;
            for (std::size_t k = 0; k < to.size(); ++k) to[k] += of.error[std::size_t(first) + k];
        };
        if (operand > 0 || !b.is_exact()) take_magnitudes(a.value, a_first, left);
        if (operand > 0 || !a.is_exact()) take_magnitudes(b.value, b_first, right);
        if (operand > 0) {
            Reals whole = left;
            for (double& x : left) x *= operand;
            add();
            left = std::move(whole);
        }
        if (!b.is_exact()) {
            Reals magnitudes = std::move(right);
            right.assign(b.error.begin() + b_first, b.error.begin() + b_first + cols_.size * terms_.size);
            add();
            right = std::move(magnitudes);
        }
        if (!a.is_exact()) {
            left.assign(a.error.begin() + a_first, a.error.begin() + a_first + rows_.size * terms_.size);
            add_errors(b, b_first, right);
            add();
        }
    }

    /// What an error of infinity or NaN says of a number: nothing is known of it.
    static void settle_unknown(Numbers& sums) {
        if (element_kernels().in_range({sums.value.data(), sums.error.data()}, sums.size())) return;
        for (std::size_t k = 0; k < sums.value.size(); ++k) {
            double& off = sums.error[k];
            if (std::isnan(off)) off = std::numeric_limits<double>::infinity();
            if (!std::isfinite(sums.value[k]) && !std::isinf(off)) off = 0;
        }
    }

    const Numbers& x_;
    const Numbers& y_;
    Order batch_;
    Order rows_;
    Order cols_;
    Order terms_;
    Order sums_;
    Order y_order_;
    bool are_rows_ = true;
};

}  // namespace

Numbers sum_of_products(const Numbers& x, const Numbers& y, const std::vector<int>& axes,
                        Accumulation accumulation, const SumModel& model, const Numbers* start) {
    return ProductOfMatrices(x, y, axes).sum(sum_rounding(model.tensor_core, accumulation), model, start);
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
