// The oracle's exponentials and their bounds, for every instruction set that this processor has, against long
// double.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "oracle/formula/vector_kernels.h"
#include "tests/oracle/strided_matrix.h"

namespace tilescope::test {
namespace {

using Real = long double;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double flush_to_zero = 0x1p-126;

class EveryExponential : public ::testing::TestWithParam<const VectorKernels*> {
 protected:
    const VectorKernels& kernels() const { return *GetParam(); }
};

/// Distance in units of the last place of `exact` as a double.
double ulps(double got, Real exact) {
    const auto rounded = double(exact);
    const double ulp = std::nextafter(std::abs(rounded), infinity) - std::abs(rounded);
    return double(std::abs(Real(got) - exact) / Real(ulp));
}

TEST_P(EveryExponential, TakesExponentialsWithinFourUlp) {
    std::mt19937_64 random(5);
    for (const double m : {0.0, -0.0, 3.25, -71.5, 600.0}) {
        for (const std::int64_t cols : {1, 2, 3, 8, 9, 31, 64}) {
            Strided s(2, cols, 3);
            for (std::int64_t j = 0; j < cols; ++j) {
                s.at(0, j) = m + std::uniform_real_distribution<double>(-699, 80)(random);
                s.at(1, j) =
                    j % 4 == 0 ? m : m - std::exp(std::uniform_real_distribution<double>(-40, 5)(random));
            }
            const Strided s_error(2, cols, 1);
            const double ms[] = {m, m};
            const double m_error[] = {0, 0};
            Strided value(2, cols, 2);
            Strided error(2, cols, 5);
            kernels().exponentials(s.in(), s_error.in(), ms, m_error, {}, value.out(), error.out());
            Strided alone(2, cols, 2);
            kernels().exponentials(s.in(), s_error.in(), ms, m_error, {}, alone.out(), {});
            ASSERT_TRUE(value.gaps_are_untouched() && error.gaps_are_untouched() &&
                        alone.gaps_are_untouched());
            for (std::int64_t i = 0; i < 2; ++i) {
                for (std::int64_t j = 0; j < cols; ++j) {
                    // The difference is rounded once, to double.
                    const Real exact = std::exp(Real(s.at(i, j) - m));
                    ASSERT_LE(ulps(value.at(i, j), exact), 4) << s.at(i, j) << " - " << m;
                    ASSERT_LE(ulps(alone.at(i, j), exact), 4) << s.at(i, j) << " - " << m;
                    ASSERT_GE(error.at(i, j), value.at(i, j) * 4 * 0x1p-53);
                    ASSERT_LE(error.at(i, j), value.at(i, j) * 0x1p-40 + 2 * flush_to_zero);
                }
            }
        }
    }
}

TEST_P(EveryExponential, TakesExponentialsOfWhatIsNoNumber) {
    const double m[] = {0, -1, -infinity, nan};
    const double m_error[] = {0, 0, 0, 0};
    const std::vector<double> scores = {-infinity, -1e6, -740, 0.0, -0.0, nan};
    Strided s(4, std::int64_t(scores.size()), 1);
    for (std::int64_t i = 0; i < s.rows; ++i)
        for (std::int64_t j = 0; j < s.cols; ++j) s.at(i, j) = scores[std::size_t(j)];
    const Strided s_error(4, s.cols, 0);
    Strided value(4, s.cols, 0);
    Strided error(4, s.cols, 0);
    kernels().exponentials(s.in(), s_error.in(), m, m_error, {}, value.out(), error.out());
    for (std::int64_t i = 0; i < 3; ++i) {
        EXPECT_EQ(value.at(i, 0), 0) << "a masked cell of row " << i;
        EXPECT_EQ(error.at(i, 0), 0) << "a masked cell of row " << i;
        EXPECT_TRUE(std::isnan(value.at(i, 5))) << "a score that is NaN, in row " << i;
    }
    for (std::int64_t i = 0; i < 2; ++i) {
        for (const std::int64_t j : {1, 2}) {
            EXPECT_LT(value.at(i, j), 1e-300);
            EXPECT_GE(error.at(i, j), flush_to_zero);
        }
        for (const std::int64_t j : {3, 4}) EXPECT_DOUBLE_EQ(value.at(i, j), double(std::exp(-Real(m[i]))));
    }
    for (std::int64_t j = 0; j < s.cols; ++j)
        EXPECT_TRUE(std::isnan(value.at(3, j))) << "a maximum that is NaN";
}

/// |exp(s' - m') - exp(s - m)| for s' and m' as far off as their errors say, and a function as far off as its
/// bound.
TEST_P(EveryExponential, BoundsTheErrorOfExponentials) {
    const ExponentialBound bound{.argument_difference = 1e-7,
                                 .argument_terms = 2e-7,
                                 .function = 3e-7,
                                 .function_argument = 1e-8,
                                 .most_above_m = 2};
    for (const double spread : {0.0, 1e-6, 1e-2, 0.7, 5.0}) {
        for (const double x : {-80.0, -20.0, -1.0, -1e-3, 0.0, 1.5}) {
            const double m = 11;
            Strided s(1, 1, 0, m + x);
            const Strided s_error(1, 1, 0, spread);
            const double m_error = spread / 2;
            Strided value(1, 1, 0);
            Strided error(1, 1, 0);
            kernels().exponentials(s.in(), s_error.in(), &m, &m_error, bound, value.out(), error.out());
            const Real argument = 1e-7L * std::abs(Real(x)) + 2e-7L * (std::abs(Real(m + x)) + m);
            const Real function = 3e-7L + 1e-8L * std::abs(Real(x));
            // No score is further above its maximum than most_above_m.
            const Real highest = std::min(Real(x) + 1.5L * Real(spread), std::max(Real(x), 2.0L)) + argument;
            const Real exact = std::exp(Real(x));
            const Real above = std::exp(highest) * (1 + function) - exact;
            const Real below = exact - std::exp(Real(x) - 1.5L * Real(spread) - argument) * (1 - function);
            EXPECT_GE(error.at(0, 0), double(std::max(above, below)) * (1 - 1e-9)) << spread << " " << x;
            const Real unlimited =
                std::exp(Real(x) + 1.5L * Real(spread) + argument) * (1 + function) - exact;
            EXPECT_LE(error.at(0, 0), double(unlimited) * 1.01 + 2 * flush_to_zero) << spread << " " << x;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(VectorKernels, EveryExponential,
                         ::testing::ValuesIn(runnable_vector_kernels().begin(),
                                             runnable_vector_kernels().end()),
                         [](const auto& param) { return name_of(*param.param); });

}  // namespace
}  // namespace tilescope::test
