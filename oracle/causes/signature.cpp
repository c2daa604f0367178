#include "oracle/causes/signature.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tilescope {

std::vector<Candidate> always(Change change) {
    return {{{}, std::move(change)}};
}

std::string digits(double value) {
    return fmt::format("{:.6g}", value);
}

std::string digits(std::int64_t value) {
    return std::to_string(value);
}

double rounded_to(Dtype dtype, double value) {
    return double(decode(dtype, encode(dtype, value)));
}

namespace {

/// Where the error leaves two numbers of the cast, both are right.
template <class Cast>
void cast_with(const Cast& cast, double scale, Estimate& estimate) {
    for (Eigen::Index i = 0; i < estimate.value.size(); ++i) {
        double& value = estimate.value.data()[i];
        double& error = estimate.error.data()[i];
        if (!std::isfinite(value) || !std::isfinite(error)) continue;
        const double low = cast((value - error) * scale) / scale;
        const double high = cast((value + error) * scale) / scale;
        if (!std::isfinite(low) || !std::isfinite(high)) {
            value = std::isfinite(low) ? high : low;
            error = 0;
            continue;
        }
        // What was computed in float32 and rounded is scaled back with one more rounding.
        const double rounding = 4 * u_f32 * std::abs(low);
        value = 0.5 * (low + high);
        error = 0.5 * (high - low) + (scale == 1 ? 0 : rounding);
    }
}

}  // namespace

void round_to(Dtype dtype, double scale, Estimate& estimate) {
    cast_with([=](double value) { return rounded_to(dtype, value); }, scale, estimate);
}

double median_of(std::vector<double> values) {
    if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
    const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

std::vector<Places> parts_of(std::int64_t length) {
    std::vector<Places> parts;
    for (std::int64_t period = 2; period <= length; period *= 2) {
        for (std::int64_t count = 1; count < period; count *= 2) {
            for (std::int64_t first = 0; first < period; first += count)
                parts.push_back({period, first, count});
        }
    }
    for (std::int64_t count = 8; count < length; count += 8) {
        if (std::ranges::find(parts, Places{length, 0, count}) == parts.end()) parts.push_back({0, 0, count});
    }
    return parts;
}

void cut_to_range(const SearchedTile& site, Estimate& p) {
    const Units& units = site.call->units;
    if (units.p_cast == Dtype::f32) return;
    const double most = double(dtype_info(units.p_cast).max_finite) / units.p_scale;
    for (Eigen::Index i = 0; i < p.value.size(); ++i) {
        if (!(std::abs(p.value.data()[i]) > most)) continue;
        p.value.data()[i] = std::copysign(most, p.value.data()[i]);
        p.error.data()[i] = 0;
    }
}

bool are_numbers_of(const Evidence& evidence, Dtype dtype) {
    std::int64_t numbers = 0;
    std::int64_t others = 0;
    for (const Observation& seen : evidence.seen) {
        for (Eigen::Index i = 0; i < seen.got.size(); ++i) {
            const double got = seen.got.data()[i];
            if (!seen.wrong[std::size_t(i)] || std::isnan(got)) continue;
            const bool overflows =
                std::abs(seen.expected.value.data()[i]) > double(dtype_info(dtype).max_finite);
            const bool is = std::isinf(got) ? overflows : rounded_to(dtype, got) == got;
            (is ? numbers : others) += 1;
        }
    }
    return numbers >= 4 && others * 1000 <= numbers;
}

}  // namespace tilescope
