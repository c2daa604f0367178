#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "dump/schema/program.h"
#include "oracle/describe/real.h"
#include "oracle/program/element_kernels.h"
#include "oracle/program/reals.h"

namespace tilescope {

/// Numbers along some axes of a program, row-major in the order of the axes, with what each may be off by.
struct Numbers {
    std::vector<int> axes{};              ///< rising
    std::vector<std::int64_t> extents{};  ///< of each axis
    Reals value{};
    Reals error{};  ///< empty: all are exact

    static Numbers of(double number) { return {.value = {number}}; }
    /// All of them 0 and exact.
    static Numbers along(std::vector<int> axes, std::vector<std::int64_t> extents);
    /// Of any numbers.
    static Numbers room(std::vector<int> axes, std::vector<std::int64_t> extents);

    std::int64_t size() const { return std::int64_t(value.size()); }
    bool is_exact() const { return error.empty(); }
    Uncertain at(std::int64_t i) const {
        return {value[std::size_t(i)], error.empty() ? 0 : error[std::size_t(i)]};
    }
    /// -1: they do not go along it.
    int position_of(int axis) const;
};

/// Elements that this thread has computed so far: how searches know what they have spent.
std::int64_t& elements_computed();

/// A number for each of some axes.
class PerAxis {
 public:
    PerAxis() = default;
    explicit PerAxis(const std::vector<std::int64_t>& numbers) {
        for (const std::int64_t number : numbers) push_back(number);
    }
    PerAxis(std::size_t size, std::int64_t number) : size_(size) {
        std::fill_n(numbers_.begin(), size, number);
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    std::int64_t& operator[](std::size_t i) { return numbers_[i]; }
    std::int64_t operator[](std::size_t i) const { return numbers_[i]; }
    std::int64_t back() const { return numbers_[size_ - 1]; }
    void push_back(std::int64_t number) { numbers_[size_++] = number; }
    void pop_back() { --size_; }

 private:
    std::array<std::int64_t, ProgramLimits::axes> numbers_{};
    std::size_t size_ = 0;
};

/// Elements one behind the other in a result, and where those of the operands stand: the first one, and how far the next is.
template <std::size_t n>
struct Row {
    std::int64_t to = 0;
    std::int64_t length = 1;
    std::array<std::int64_t, n> from{};
    std::array<std::int64_t, n> step{};
};

/// Where an element of some numbers stands, for each element along other axes: those that they have not repeat them.
class Walk {
 public:
    Walk(const std::vector<int>& axes, const std::vector<std::int64_t>& extents)
        : axes_(axes), extents_(extents) {}

    /// Distances in `numbers` from one index of each axis to the next.
    PerAxis steps_of(const Numbers& numbers) const;

    /// Calls each(row) for rows as long as all operands go on in equal steps.
    template <std::size_t n, class Each>
    void rows(std::array<PerAxis, n> steps, const Each& each) const {
        PerAxis extents(extents_);
        while (extents.size() > 1 && joins_last(extents, steps)) {}
        Row<n> row;
        if (!extents.empty()) {
            row.length = extents.back();
            for (std::size_t k = 0; k < n; ++k) row.step[k] = steps[k].back();
        }
        const std::size_t outer = extents.empty() ? 0 : extents.size() - 1;
        PerAxis index(outer, 0);
        for (;;) {
            each(std::as_const(row));
            row.to += row.length;
            std::size_t axis = outer;
            for (;; --axis) {
                if (axis == 0) return;
                const std::size_t i = axis - 1;
                for (std::size_t k = 0; k < n; ++k) row.from[k] += steps[k][i];
                if (++index[i] < extents[i]) break;
                for (std::size_t k = 0; k < n; ++k) row.from[k] -= steps[k][i] * extents[i];
                index[i] = 0;
            }
        }
    }

 private:
    /// Whether the last axis goes on where the one before it ends, in all operands: both are one axis then.
    template <std::size_t n>
    static bool joins_last(PerAxis& extents, std::array<PerAxis, n>& steps) {
        const std::size_t last = extents.size() - 1;
        const bool is_one = extents[last] == 1;
        for (const PerAxis& step : steps) {
            if (!is_one && extents[last - 1] != 1 && step[last - 1] != step[last] * extents[last])
                return false;
        }
        for (PerAxis& step : steps) {
            if (!is_one) step[last - 1] = step[last];
            step.pop_back();
        }
        extents[last - 1] *= extents[last];
        extents.pop_back();
        return true;
    }

    const std::vector<int>& axes_;
    const std::vector<std::int64_t>& extents_;
};

/// Along all axes of any of them.
Numbers room_for(const Numbers* const* of, std::size_t count);

/// What `make` makes of elements, given as Uncertain each: along all axes of any of them.
template <std::size_t n, class Make>
Numbers combined(const std::array<const Numbers*, n>& of, bool exact, const Make& make) {
    Numbers result = room_for(of.data(), n);
    if (!exact) result.error.make_room(result.value.size());
    if (result.value.empty()) return result;
    const Walk walk(result.axes, result.extents);
    std::array<PerAxis, n> steps;
    for (std::size_t k = 0; k < n; ++k) steps[k] = walk.steps_of(*of[k]);
    walk.rows(steps, [&](const Row<n>& row) {
        for (std::int64_t i = 0; i < row.length; ++i) {
            std::array<Uncertain, n> elements;
            for (std::size_t k = 0; k < n; ++k) elements[k] = of[k]->at(row.from[k] + i * row.step[k]);
            const Uncertain made = make(elements);
            result.value[std::size_t(row.to + i)] = made.value;
            if (!exact) result.error[std::size_t(row.to + i)] = made.error;
        }
    });
    return result;
}

/// Some elements of numbers one behind the other, in their own memory, or copied into this.
class SpanOf {
 public:
    static constexpr std::int64_t most = 256;

    ElementSpan take(const Numbers& numbers, std::int64_t first, std::int64_t step, std::int64_t count);

 private:
    std::array<double, most> values_;
    std::array<double, most> errors_;
};

/// The same by `quick`, which makes many at once of an ElementSpan of each, and says whether it could: the kernels of
/// element_kernels.h. `make` makes the others.
template <std::size_t n, class Quick, class Make>
Numbers combined(const std::array<const Numbers*, n>& of, bool exact, const Quick& quick, const Make& make) {
    Numbers result = room_for(of.data(), n);
    result.error.make_room(result.value.size());
    if (result.value.empty()) return result;
    const Walk walk(result.axes, result.extents);
    std::array<PerAxis, n> steps;
    for (std::size_t k = 0; k < n; ++k) steps[k] = walk.steps_of(*of[k]);
    std::array<SpanOf, n> kept;
    std::array<ElementSpan, n> spans;
    walk.rows(steps, [&](const Row<n>& row) {
        for (std::int64_t done = 0; done < row.length; done += SpanOf::most) {
            const std::int64_t count = std::min(SpanOf::most, row.length - done);
            for (std::size_t k = 0; k < n; ++k) {
                if (done == 0 || row.step[k] != 0)
                    spans[k] = kept[k].take(*of[k], row.from[k] + done * row.step[k], row.step[k], count);
            }
            const ElementResult to{result.value.data() + row.to + done, result.error.data() + row.to + done};
            if (quick(spans, count, to)) continue;
            for (std::int64_t i = 0; i < count; ++i) {
                std::array<Uncertain, n> elements;
                for (std::size_t k = 0; k < n; ++k) elements[k] = {spans[k].value[i], spans[k].error[i]};
                const Uncertain made = make(elements);
                to.value[i] = made.value;
                to.error[i] = made.error;
            }
        }
    });
    if (exact) result.error.clear();
    return result;
}

/// Some of these numbers along other axes: from the first-th on, in these steps along each. With errors.
Numbers part_of(const Numbers& numbers, std::int64_t first, std::vector<int> axes,
                std::vector<std::int64_t> extents, const PerAxis& steps);

/// Puts numbers with errors in the place of those.
void put_part(const Numbers& part, std::int64_t first, const PerAxis& steps, Numbers& numbers);

/// The same numbers along these axes in this order, which need not rise. Axes that they do not have repeat them; what they
/// have beside these has one index.
Numbers laid_out(Numbers numbers, const std::vector<int>& axes, const std::vector<std::int64_t>& extents);

}  // namespace tilescope
