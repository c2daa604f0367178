#include "kernels/run/quantise.h"

#include <algorithm>
#include <cmath>

#include "dump/schema/dtype.h"
#include "kernels/attention/along_keys.h"

namespace tilescope {

namespace {

/// Calls function(group, first, end) with the elements of each group.
template <class Function>
void for_each_group(const ScaleGroups& groups, const Function& function) {
    for (std::int64_t group = 0; group < groups.count(); ++group) {
        const std::int64_t matrix = group / groups.blocks();
        const std::int64_t row = group % groups.blocks() * groups.block_rows;
        const std::int64_t end = std::min(row + groups.block_rows, groups.rows);
        function(std::size_t(group), std::size_t((matrix * groups.rows + row) * groups.cols),
                 std::size_t((matrix * groups.rows + end) * groups.cols));
    }
}

float scale_of(std::span<const float> values) {
    float amax = 0;
    for (float value : values) {
        if (std::isfinite(value)) amax = std::max(amax, std::abs(value));
    }
    const float scale = amax / largest_e4m3;
    return scale > 0 ? scale : 1;
}

}  // namespace

Quantised quantise(std::span<const float> values, const ScaleGroups& groups) {
    Quantised result;
    result.codes.resize(values.size());
    result.scales.resize(std::size_t(groups.count()));
    for_each_group(groups, [&](std::size_t group, std::size_t first, std::size_t end) {
        const float scale = scale_of(values.subspan(first, end - first));
        result.scales[group] = scale;
        for (std::size_t i = first; i < end; ++i) {
            result.codes[i] = std::byte(encode(Dtype::e4m3, values[i] / scale, Overflow::saturate));
        }
    });
    return result;
}

std::vector<std::byte> along_keys(std::span<const std::byte> codes, const ScaleGroups& groups) {
    const std::int64_t pitch = along_keys_pitch(groups.rows);
    std::vector<std::byte> laid(std::size_t(groups.matrices * groups.cols * pitch));
    for (std::size_t i = 0; i < codes.size(); ++i) {
        const std::int64_t row = std::int64_t(i) / groups.cols;
        const std::int64_t feature = row / groups.rows * groups.cols + std::int64_t(i) % groups.cols;
        laid[std::size_t(feature * pitch + place_along_keys(int(row % groups.rows)))] = codes[i];
    }
    return laid;
}

QuantisationError quantisation_error(std::span<const float> values, const Quantised& quantised,
                                     const ScaleGroups& groups) {
    double squares = 0;
    double difference_squares = 0;
    double amax = 0;
    double largest = 0;
    for_each_group(groups, [&](std::size_t group, std::size_t first, std::size_t end) {
        for (std::size_t i = first; i < end; ++i) {
            if (!std::isfinite(values[i])) continue;
            const double code = decode(Dtype::e4m3, std::to_integer<std::uint32_t>(quantised.codes[i]));
            const double difference = code * double(quantised.scales[group]) - double(values[i]);
            squares += double(values[i]) * double(values[i]);
            difference_squares += difference * difference;
            amax = std::max(amax, std::abs(double(values[i])));
            largest = std::max(largest, std::abs(difference));
        }
    });
    if (amax == 0) return {};
    return {std::sqrt(difference_squares / squares), largest / amax};
}

}  // namespace tilescope
