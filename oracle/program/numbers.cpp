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

Numbers Numbers::room(std::vector<int> axes, std::vector<std::int64_t> extents) {
    // One array that a formula needs, and what its elements may be off by.
    constexpr std::int64_t most = std::int64_t(1) << 27;
    const std::int64_t elements = product_of(extents);
    if (elements > most)
        throw Error("a formula needs " + std::to_string(elements >> 16) + " MiB at once", "program",
                    "cut its axes into smaller blocks, or a product of many axes into stages");
    const auto size = std::size_t(elements);
    // However few they are, they have to be looked after.
    elements_computed() += elements + 64;
    Numbers numbers{.axes = std::move(axes), .extents = std::move(extents)};
    numbers.value.make_room(size);
    return numbers;
}

Numbers Numbers::along(std::vector<int> axes, std::vector<std::int64_t> extents) {
    Numbers numbers = room(std::move(axes), std::move(extents));
    std::ranges::fill(numbers.value, 0.0);
    return numbers;
}

std::int64_t& elements_computed() {
    thread_local std::int64_t elements = 0;
    return elements;
}

int Numbers::position_of(int axis) const {
    const auto found = std::ranges::find(axes, axis);
    return found == axes.end() ? -1 : int(found - axes.begin());
}

PerAxis Walk::steps_of(const Numbers& numbers) const {
    PerAxis steps;
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
    return Numbers::room(std::move(axes), std::move(extents));
}

namespace {

void copy_rows(const Walk& walk, const Reals& from, std::int64_t begin, const PerAxis& steps, Reals& to) {
    walk.rows(std::array{steps}, [&](const Row<1>& row) {
        const double* const first = from.data() + begin + row.from[0];
        double* const out = to.data() + row.to;
        if (row.step[0] == 1) {
            std::copy_n(first, row.length, out);
        } else {
            for (std::int64_t i = 0; i < row.length; ++i) out[i] = first[i * row.step[0]];
        }
    });
}

}  // namespace

Numbers part_of(const Numbers& numbers, std::int64_t first, std::vector<int> axes,
                std::vector<std::int64_t> extents, const PerAxis& steps) {
    Numbers part = Numbers::room(std::move(axes), std::move(extents));
    part.error.make_room(part.value.size());
    if (part.value.empty()) return part;
    const Walk walk(part.axes, part.extents);
    copy_rows(walk, numbers.value, first, steps, part.value);
    if (!numbers.is_exact()) copy_rows(walk, numbers.error, first, steps, part.error);
    return part;
}

void put_part(const Numbers& part, std::int64_t first, const PerAxis& steps, Numbers& numbers) {
    if (part.value.empty()) return;
    Walk(part.axes, part.extents).rows(std::array{steps}, [&](const Row<1>& row) {
        for (std::int64_t i = 0; i < row.length; ++i) {
            const auto at = std::size_t(first + row.from[0] + i * row.step[0]);
            numbers.value[at] = part.value[std::size_t(row.to + i)];
            numbers.error[at] = part.is_exact() ? 0 : part.error[std::size_t(row.to + i)];
        }
    });
}

Numbers laid_out(Numbers numbers, const std::vector<int>& axes, const std::vector<std::int64_t>& extents) {
    if (numbers.axes == axes) return numbers;
    Numbers result = Numbers::room(axes, extents);
    if (!numbers.is_exact()) result.error.make_room(result.value.size());
    if (result.value.empty()) return result;
    const Walk walk(result.axes, result.extents);
    const PerAxis steps = walk.steps_of(numbers);
    copy_rows(walk, numbers.value, 0, steps, result.value);
    if (!numbers.is_exact()) copy_rows(walk, numbers.error, 0, steps, result.error);
    return result;
}

ElementSpan SpanOf::take(const Numbers& numbers, std::int64_t first, std::int64_t step, std::int64_t count) {
    static constexpr std::array<double, most> none{};
    const auto taken = [&](const Reals& from, std::array<double, most>& copied) {
        const double* const there = from.data() + first;
        if (step == 1) return there;
        for (std::int64_t i = 0; i < count; ++i) copied[std::size_t(i)] = there[i * step];
        return static_cast<const double*>(copied.data());
    };
    return {taken(numbers.value, values_), numbers.is_exact() ? none.data() : taken(numbers.error, errors_)};
}

}  // namespace tilescope
