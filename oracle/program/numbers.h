#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "oracle/describe/real.h"

namespace tilescope {

/// Numbers along some axes of a program, row-major in the order of the axes, with what each may be off by.
struct Numbers {
    std::vector<int> axes{};              ///< rising
    std::vector<std::int64_t> extents{};  ///< of each axis
    std::vector<double> value{};
    std::vector<double> error{};  ///< empty: all are exact

    static Numbers of(double number) { return {.value = {number}}; }
    /// All of them 0 and exact.
    static Numbers along(std::vector<int> axes, std::vector<std::int64_t> extents);

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

/// Where an element of some numbers stands, for each element along other axes: those that they have not repeat them.
class Walk {
 public:
    Walk(const std::vector<int>& axes, const std::vector<std::int64_t>& extents)
        : axes_(axes), extents_(extents) {}

    /// Distances in `numbers` from one index of each axis to the next.
    std::vector<std::int64_t> steps_of(const Numbers& numbers) const;

    /// Calls each(first of the row in the result, firsts in the operands) for each row along the last axis.
    template <std::size_t n, class Each>
    void rows(const std::array<std::vector<std::int64_t>, n>& steps, const Each& each) const {
        const std::size_t outer = axes_.empty() ? 0 : axes_.size() - 1;
        std::vector<std::int64_t> index(outer, 0);
        std::array<std::int64_t, n> from{};
        std::int64_t to = 0;
        for (;;) {
            each(to, from);
            to += row_length();
            std::size_t axis = outer;
            for (;; --axis) {
                if (axis == 0) return;
                const std::size_t i = axis - 1;
                for (std::size_t k = 0; k < n; ++k) from[k] += steps[k][i];
                if (++index[i] < extents_[i]) break;
                for (std::size_t k = 0; k < n; ++k) from[k] -= steps[k][i] * extents_[i];
                index[i] = 0;
            }
        }
    }
    std::int64_t row_length() const { return axes_.empty() ? 1 : extents_.back(); }

 private:
    const std::vector<int>& axes_;
    const std::vector<std::int64_t>& extents_;
};

/// Along all axes of any of them.
Numbers room_for(const Numbers* const* of, std::size_t count);

/// What `make` makes of elements, given as Uncertain each: along all axes of any of them.
template <std::size_t n, class Make>
Numbers combined(const std::array<const Numbers*, n>& of, bool exact, const Make& make) {
    Numbers result = room_for(of.data(), n);
    if (!exact) result.error.resize(result.value.size());
    if (result.value.empty()) return result;
    const Walk walk(result.axes, result.extents);
    std::array<std::vector<std::int64_t>, n> steps;
    std::array<std::int64_t, n> last{};
    for (std::size_t k = 0; k < n; ++k) {
        steps[k] = walk.steps_of(*of[k]);
        last[k] = steps[k].empty() ? 0 : steps[k].back();
    }
    walk.rows(steps, [&](std::int64_t to, const std::array<std::int64_t, n>& from) {
        for (std::int64_t i = 0; i < walk.row_length(); ++i) {
            std::array<Uncertain, n> elements;
            for (std::size_t k = 0; k < n; ++k) elements[k] = of[k]->at(from[k] + i * last[k]);
            const Uncertain made = make(elements);
            result.value[std::size_t(to + i)] = made.value;
            if (!exact) result.error[std::size_t(to + i)] = made.error;
        }
    });
    return result;
}

/// The same numbers along these axes in this order, which need not rise. Axes that they do not have repeat them; what they
/// have beside these has one index.
Numbers laid_out(Numbers numbers, const std::vector<int>& axes, const std::vector<std::int64_t>& extents);

}  // namespace tilescope
