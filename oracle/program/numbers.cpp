#include "oracle/program/numbers.h"

#include <algorithm>
#include <limits>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

std::int64_t product_of(const std::vector<std::int64_t>& extents) {
    std::int64_t product = 1;
    for (const std::int64_t extent : extents) {
        if (__builtin_mul_overflow(product, extent, &product))
            return std::numeric_limits<std::int64_t>::max();
    }
    return product;
}

}  // namespace

Numbers Numbers::along(std::vector<int> axes, std::vector<std::int64_t> extents) {
    // One array that a formula needs, and what its elements may be off by.
    constexpr std::int64_t most = std::int64_t(1) << 27;
    const std::int64_t elements = product_of(extents);
    if (elements > most)
        throw Error("a formula needs " + std::to_string(elements >> 16) + " MiB at once", "program",
                    "cut its axes into smaller blocks, or a product of many axes into stages");
    const auto size = std::size_t(elements);
    // However few they are, they have to be looked after.
    elements_computed() += elements + 64;
    return {.axes = std::move(axes), .extents = std::move(extents), .value = std::vector<double>(size)};
}

std::int64_t& elements_computed() {
    thread_local std::int64_t elements = 0;
    return elements;
}

int Numbers::position_of(int axis) const {
    const auto found = std::ranges::find(axes, axis);
    return found == axes.end() ? -1 : int(found - axes.begin());
}

std::vector<std::int64_t> Walk::steps_of(const Numbers& numbers) const {
    std::vector<std::int64_t> steps;
    for (const int axis : axes_) {
        const int position = numbers.position_of(axis);
        std::int64_t step = 0;
        if (position >= 0) {
            step = 1;
            for (std::size_t i = std::size_t(position) + 1; i < numbers.extents.size(); ++i)
                step *= numbers.extents[i];
        }
        steps.push_back(step);
    }
    return steps;
}

Numbers room_for(const Numbers* const* of, std::size_t count) {
    std::vector<int> axes;
    for (std::size_t k = 0; k < count; ++k) axes.insert(axes.end(), of[k]->axes.begin(), of[k]->axes.end());
    std::ranges::sort(axes);
    const auto doubled = std::ranges::unique(axes);
    axes.erase(doubled.begin(), doubled.end());
    std::vector<std::int64_t> extents;
    for (const int axis : axes) {
        for (std::size_t k = 0; k < count; ++k) {
            if (const int position = of[k]->position_of(axis); position >= 0) {
                extents.push_back(of[k]->extents[std::size_t(position)]);
                break;
            }
        }
    }
    return Numbers::along(std::move(axes), std::move(extents));
}

Numbers laid_out(Numbers numbers, const std::vector<int>& axes, const std::vector<std::int64_t>& extents) {
    if (numbers.axes == axes) return numbers;
    Numbers result = Numbers::along(axes, extents);
    if (!numbers.is_exact()) result.error.resize(result.value.size());
    if (result.value.empty()) return result;
    const Walk walk(result.axes, result.extents);
    const std::array steps{walk.steps_of(numbers)};
    const std::int64_t last = axes.empty() ? 0 : steps[0].back();
    walk.rows(steps, [&](std::int64_t to, const std::array<std::int64_t, 1>& from) {
        for (std::int64_t i = 0; i < walk.row_length(); ++i) {
            const Uncertain number = numbers.at(from[0] + i * last);
            result.value[std::size_t(to + i)] = number.value;
            if (!numbers.is_exact()) result.error[std::size_t(to + i)] = number.error;
        }
    });
    return result;
}

}  // namespace tilescope
