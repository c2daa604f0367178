#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "oracle/formula/vector_kernels.h"

namespace tilescope::test {

/// A matrix whose rows are further apart than they are long; what lies between is never to be touched.
struct Strided {
    static constexpr double untouched = 1e300;

    std::int64_t rows;
    std::int64_t cols;
    std::int64_t ld;
    std::vector<double> values;

    Strided(std::int64_t r, std::int64_t c, std::int64_t gap, double fill = 0)
        : rows(r), cols(c), ld(c + gap), values(std::size_t(r * ld), untouched) {
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < cols; ++j) at(i, j) = fill;
    }
    double& at(std::int64_t i, std::int64_t j) { return values[std::size_t(i * ld + j)]; }
    double at(std::int64_t i, std::int64_t j) const { return values[std::size_t(i * ld + j)]; }
    View<double> out() { return {values.data(), rows, cols, ld}; }
    View<const double> in() const { return {values.data(), rows, cols, ld}; }
    bool gaps_are_untouched() const {
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = cols; j < ld; ++j)
                if (at(i, j) != untouched) return false;
        return true;
    }
};

/// Name of a test's parameter.
inline std::string name_of(const VectorKernels& kernels) {
    std::string name = kernels.instruction_set;
    std::ranges::replace(name, '-', '_');
    return name;
}

}  // namespace tilescope::test
