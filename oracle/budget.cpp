#include "oracle/budget.h"

#include <cmath>
#include <limits>

namespace tilescope {

double gamma(double roundings, double u) {
    const double nu = roundings * u;
    return nu < 1 ? nu / (1 - nu) : std::numeric_limits<double>::infinity();
}

double dot_product_bound(double length, Accumulation accumulation) {
    switch (accumulation) {
        case Accumulation::fma_f32:
            return gamma(length, u_f32);
        case Accumulation::tensor_core_f32:
            return gamma(length + std::ceil(length / 4), 2 * u_f32);
    }
    return std::numeric_limits<double>::infinity();
}

double exp_function_bound(ExpFunction function, double argument) {
    constexpr double ulp = 0x1p-23;
    switch (function) {
        case ExpFunction::expf:
        case ExpFunction::exp2f:
        case ExpFunction::ex2_approx:
            return 2 * ulp;
        case ExpFunction::fast_expf:
            return (2 + std::floor(1.173 * std::abs(argument))) * ulp;
    }
    return std::numeric_limits<double>::infinity();
}

double exp_argument_bound(ExpFunction function, double s, double m) {
    switch (function) {
        case ExpFunction::expf:
        case ExpFunction::fast_expf:
            return u_f32 * (std::abs(s - m) + std::abs(s) + std::abs(m));
        case ExpFunction::exp2f:
        case ExpFunction::ex2_approx:
            return u_f32 * std::abs(s - m) + gamma(3, u_f32) * (std::abs(s) + std::abs(m));
    }
    return std::numeric_limits<double>::infinity();
}

double log_function_bound(double log_value) {
    return std::exp2(-21.41) + 6 * u_f32 * std::abs(log_value);
}

double cast_bound(Dtype dtype, double magnitude) {
    return dtype == Dtype::f32 ? 0 : unit_roundoff(dtype) * magnitude + half_quantum(dtype);
}

}  // namespace tilescope
