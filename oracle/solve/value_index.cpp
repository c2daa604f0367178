#include "oracle/solve/value_index.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "oracle/solve/effort.h"

namespace tilescope {

ValueIndex::ValueIndex(std::vector<double> values) : values_(std::move(values)), order_(values_.size()) {
    spend(16 * std::ssize(values_));
    std::iota(order_.begin(), order_.end(), 0);
    const auto value = [&](std::int32_t at) { return values_[std::size_t(at)]; };
    std::erase_if(order_, [&](std::int32_t at) { return std::isnan(value(at)); });
    std::ranges::sort(order_, {}, value);
}

std::vector<std::int64_t> ValueIndex::sources(double value, double tolerance, std::int64_t from,
                                              std::int64_t most) const {
    const auto of = [&](std::int32_t at) { return values_[std::size_t(at)]; };
    const auto first = std::ranges::lower_bound(order_, value - tolerance, {}, of);
    const auto last = std::ranges::upper_bound(order_, value + tolerance, {}, of);
    std::vector<std::int64_t> near(first, last);
    spend(64 + 2 * std::ssize(near));
    for (std::int64_t& source : near) source -= from;
    if (std::ssize(near) > most) {
        std::ranges::nth_element(near, near.begin() + std::ptrdiff_t(most), {},
                                 [](std::int64_t source) { return std::abs(source); });
        near.resize(std::size_t(most));
    }
    std::ranges::sort(near);
    return near;
}

}  // namespace tilescope
