// The oracle's loops, for every instruction set that this processor has, against plain loops in long double.

#include "oracle/formula/vector_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "dump/hook/stage.h"
#include "tests/oracle/strided_matrix.h"

namespace tilescope::test {
namespace {

using Real = long double;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class EveryInstructionSet : public ::testing::TestWithParam<const VectorKernels*> {
 protected:
    const VectorKernels& kernels() const { return *GetParam(); }
};

TEST_P(EveryInstructionSet, MatchesWhatIsWithinItsTolerance) {
    std::mt19937_64 random(9);
    for (const std::size_t size : {1u, 2u, 7u, 8u, 16u, 33u, 100u}) {
        std::vector<float> got(size);
        std::vector<double> expected(size);
        std::vector<double> tolerance(size);
        double largest = 0;
        for (std::size_t i = 0; i < size; ++i) {
            got[i] = std::normal_distribution<float>()(random);
            expected[i] = double(got[i]) * (1 + 1e-6 * std::normal_distribution<double>()(random));
            tolerance[i] = std::abs(double(got[i]) - expected[i]);
            largest = std::max(largest, tolerance[i]);
        }
        const MatchSummary summary = kernels().match(got, expected.data(), tolerance.data(), nullptr, 0);
        EXPECT_TRUE(summary.matches) << "a difference that is just its tolerance";
        EXPECT_EQ(summary.max_abs, largest);
        for (std::size_t i = 0; i < size; ++i) {
            const double before = tolerance[i];
            tolerance[i] = std::nextafter(before, -1.0);
            if (before > 0) {
                EXPECT_FALSE(kernels().match(got, expected.data(), tolerance.data(), nullptr, 0).matches)
                    << i << " of " << size;
            }
            tolerance[i] = before;
        }
    }
}

TEST_P(EveryInstructionSet, MatchesNothingThatIsNoNumber) {
    const auto inf = float(infinity);
    struct Case {
        float got;
        double expected;
        double tolerance;
        bool matches;
    };
    const Case cases[] = {
        {1, 1, 0, true},
        {0.0f, -0.0, 0, true},
        {1, 2, infinity, true},
        {1, 1, nan, false},
        {1, 2, nan, false},
        {float(nan), 1, infinity, false},
        {1, nan, infinity, false},
        {float(nan), nan, infinity, false},
        {inf, infinity, 0, true},
        {-inf, -infinity, 0, true},
        {inf, -infinity, infinity, false},
        {-inf, infinity, infinity, false},
        {inf, 1, infinity, false},
        {1, -infinity, infinity, false},
        {-inf, 1e300, infinity, false},
    };
    for (const Case& c : cases) {
        // In every place of a vector and of what is left over.
        for (std::size_t place = 0; place < 19; ++place) {
            std::vector<float> got(19, 1.0f);
            std::vector<double> expected(19, 1.0);
            std::vector<double> tolerance(19, 0.0);
            got[place] = c.got;
            expected[place] = c.expected;
            tolerance[place] = c.tolerance;
            EXPECT_EQ(kernels().match(got, expected.data(), tolerance.data(), nullptr, 0).matches, c.matches)
                << c.got << " for " << c.expected << " +- " << c.tolerance << " at " << place;
        }
    }
}

TEST_P(EveryInstructionSet, SaysHowMuchOfTheToleranceIsUsed) {
    const auto used = [&](float got, double expected, double tolerance, double before = 0) {
        std::vector<float> all(19, 1.0F);
        std::vector<double> values(19, 1.0);
        std::vector<double> tolerances(19, 0.0);
        all[17] = got;
        values[17] = expected;
        tolerances[17] = tolerance;
        return kernels().match(all, values.data(), tolerances.data(), nullptr, before).budget_used;
    };
    EXPECT_EQ(used(1, 1, 0), 0);
    EXPECT_EQ(used(1, 1, 0.5), 0);
    EXPECT_EQ(used(1.5F, 1, 2), 0.25);
    EXPECT_EQ(used(0.5F, 1, 0.5), 1);
    EXPECT_EQ(used(float(infinity), infinity, 0), 0);
    EXPECT_EQ(used(1.5F, 1, 2, 0.125), 0.25);
    EXPECT_EQ(used(1.5F, 1, 2, 0.5), 0.5);
    EXPECT_EQ(used(1.5F, 1, 2, 1), 1);
    // As close as two shares can be: 1/3 and the numbers beside it.
    const double third = 1.0 / 3;
    for (const double before : {std::nextafter(third, 0.0), third, std::nextafter(third, 1.0)})
        EXPECT_EQ(used(2, 1, 3, before), std::max(before, third));
}

TEST_P(EveryInstructionSet, SettlesWhatWasWritten) {
    const float unwritten = std::bit_cast<float>(unwritten_bits);
    for (std::size_t place = 0; place < 19; ++place) {
        std::vector<float> got(19, 2.0F);
        std::vector<double> estimated(19, 3.0);
        std::vector<double> estimated_error(19, 0.5);
        std::vector<double> value(19);
        std::vector<double> error(19);
        got[place] = unwritten;
        kernels().settle(got, estimated.data(), estimated_error.data(), value.data(), error.data());
        for (std::size_t i = 0; i < 19; ++i) {
            EXPECT_EQ(value[i], i == place ? 3.0 : 2.0) << i;
            EXPECT_EQ(error[i], i == place ? 0.5 : 0.0) << i;
        }
    }
}

TEST_P(EveryInstructionSet, FindsTheLargestDistance) {
    const float unwritten = std::bit_cast<float>(unwritten_bits);
    const auto inf = float(infinity);
    struct Case {
        float got;
        double expected;
        Distances found;
    };
    const Case cases[] = {
        {3, 1, {1, true, false}},         {-3, 1, {5, true, false}},
        {2, 1, {0, true, false}},         {inf, 1, {infinity, true, false}},
        {float(nan), 1, {0, true, true}}, {unwritten, 1, {0, false, false}},
        {3, infinity, {0, false, false}}, {3, nan, {0, false, false}},
    };
    for (const Case& c : cases) {
        for (std::size_t place = 0; place < 19; ++place) {
            std::vector<float> got(19, unwritten);
            std::vector<double> expected(19, 1.0);
            got[place] = c.got;
            expected[place] = c.expected;
            const Distances found = kernels().distances(got, expected.data(), 2);
            EXPECT_EQ(found.largest, c.found.largest) << c.got << " for " << c.expected << " at " << place;
            EXPECT_EQ(found.any, c.found.any) << c.got << " for " << c.expected << " at " << place;
            EXPECT_EQ(found.unknown, c.found.unknown) << c.got << " for " << c.expected << " at " << place;
        }
    }
}

TEST_P(EveryInstructionSet, CountsUlpsOfFloat32) {
    const auto ulps_of = [&](float got, double expected) {
        const double tolerance = infinity;
        return kernels().match({&got, 1}, &expected, &tolerance, nullptr, 0).max_ulp;
    };
    EXPECT_EQ(ulps_of(1.5f, 1.5), 0);
    EXPECT_EQ(ulps_of(std::nextafter(1.5f, 2.0f), 1.5), 1);
    EXPECT_EQ(ulps_of(std::nextafter(2.0f, 0.0f), 2.0), 1);
    EXPECT_EQ(ulps_of(1.0f, 2.0), 1 << 23);
    EXPECT_EQ(ulps_of(-0.0f, 0.0), 0);
    EXPECT_EQ(ulps_of(0x1p-149f, -0x1p-149), 2);
    EXPECT_EQ(ulps_of(3e38f, -3e38), std::numeric_limits<std::int32_t>::max());
}

TEST_P(EveryInstructionSet, FindsTheExtremesOfRows) {
    std::mt19937_64 random(9);
    std::normal_distribution<double> normal;
    for (const std::size_t size : {1, 3, 8, 17, 64}) {
        std::vector<double> s(size);
        std::vector<double> error(size);
        for (std::size_t j = 0; j < size; ++j) {
            s[j] = j % 5 == 3 ? -infinity : 10 * normal(random);
            error[j] = s[j] == -infinity ? 0 : std::abs(normal(random));
        }
        const double relative = 0.125;
        double most = -infinity;
        double lower = -infinity;
        double upper = -infinity;
        for (std::size_t j = 0; j < size; ++j) {
            if (s[j] == -infinity) continue;
            const double off = error[j] + relative * std::abs(s[j]);
            most = std::max(most, s[j]);
            lower = std::max(lower, s[j] - off);
            upper = std::max(upper, s[j] + off);
        }
        const RowExtremes found = kernels().row_extremes(s, error.data(), relative);
        EXPECT_EQ(found.most, most) << size;
        EXPECT_EQ(found.lower, lower) << size;
        EXPECT_EQ(found.upper, upper) << size;

        for (std::size_t at = 0; at < size; ++at) {
            std::vector<double> unknown = s;
            unknown[at] = nan;
            EXPECT_TRUE(std::isnan(kernels().row_extremes(unknown, error.data(), relative).most))
                << at << " of " << size;
        }
    }
}

TEST_P(EveryInstructionSet, SeesWhatIsNotFinite) {
    const double largest = std::numeric_limits<double>::max();
    for (const std::size_t size : {0, 1, 7, 8, 33}) {
        std::vector<double> values(size, -largest);
        EXPECT_TRUE(kernels().all_finite(values)) << size;
        for (std::size_t at = 0; at < size; ++at) {
            for (const double other : {nan, infinity, -infinity}) {
                values[at] = other;
                EXPECT_FALSE(kernels().all_finite(values)) << other << " at " << at << " of " << size;
            }
            values[at] = 0;
        }
    }
}

TEST_P(EveryInstructionSet, MultipliesTheNormsOfRows) {
    std::mt19937_64 random(13);
    for (const std::int64_t cols : {1, 7, 16, 40, 128}) {
        Strided a(5, cols, 3);
        Strided b(9, cols, 1);
        for (Strided* matrix : {&a, &b}) {
            for (std::int64_t i = 0; i < matrix->rows; ++i)
                for (std::int64_t j = 0; j < cols; ++j)
                    matrix->at(i, j) = std::normal_distribution<double>()(random);
        }
        Strided product(5, 9, 2);
        const std::int64_t chunks = (cols + chunk_terms - 1) / chunk_terms;
        const auto room = std::size_t(16 * std::max(kernels().panel_cols, chunk_terms));
        std::vector<float> a_chunks(std::size_t(5 * chunks));
        std::vector<double> a_norms(5);
        kernels().norms_of_rows(a.in(), a_chunks.data(), a_norms.data());
        std::vector<double> values(room * std::size_t(cols));
        std::vector<float> b_chunks(room * std::size_t(chunks));
        std::vector<double> b_norms(room);
        kernels().pack(b.in(), true, values.data(), b_chunks.data(), b_norms.data());
        kernels().outer_product(a_norms.data(), b_norms.data(), 0.125, product.out());
        const auto norm = [&](const Strided& matrix, std::int64_t row) {
            Real squares = 0;
            for (std::int64_t j = 0; j < cols; ++j)
                squares += Real(matrix.at(row, j)) * Real(matrix.at(row, j));
            return std::sqrt(squares);
        };
        for (std::int64_t i = 0; i < 5; ++i) {
            for (std::int64_t j = 0; j < 9; ++j)
                EXPECT_NEAR(product.at(i, j), double(norm(a, i) * norm(b, j) / 8), 1e-14 * product.at(i, j))
                    << cols;
        }
        EXPECT_TRUE(product.gaps_are_untouched());
    }
}

TEST_P(EveryInstructionSet, TellsWhereAnErrorIsBelowWhatIsPossible) {
    const double largest = std::numeric_limits<double>::max();
    struct Case {
        double error;
        double spread;
        bool tells;
        bool tells_without_spread;
    };
    const Case cases[] = {
        {1, 2, true, true},          {2, 2, false, true},    {3, 2, false, true},
        {0, 0, true, true},          {5, 0, true, true},     {largest, infinity, true, true},
        {infinity, 0, false, false}, {nan, 1, false, false}, {1, nan, true, true}};
    for (const Case& c : cases) {
        for (std::size_t place = 0; place < 19; ++place) {
            std::vector<double> error(19, 0.5);
            std::vector<double> spread(19, 1.0);
            error[place] = c.error;
            spread[place] = c.spread;
            EXPECT_EQ(kernels().tells(error, spread.data()), c.tells) << c.error << " of " << c.spread;
            EXPECT_EQ(kernels().tells(error, nullptr), c.tells_without_spread) << c.error;
            const std::vector<float> got(error.size());
            const std::vector<double> expected(error.size());
            const auto match = [&](const double* of) {
                return kernels().match(got, expected.data(), error.data(), of, 0);
            };
            EXPECT_EQ(match(spread.data()).tells, c.tells) << c.error << " of " << c.spread;
            EXPECT_EQ(match(nullptr).tells, c.tells_without_spread) << c.error;
        }
    }
}

TEST_P(EveryInstructionSet, WidensEveryValueAndNothingBehindThem) {
    for (const std::size_t size : {0, 1, 7, 16, 33}) {
        std::vector<float> values(size);
        for (std::size_t i = 0; i < size; ++i)
            values[i] = i % 5 == 4 ? -float(infinity) : 0x1.8p-149F * float(i) + float(i);
        std::vector<double> wide(size + 1, -1);
        kernels().widen(values, wide.data());
        for (std::size_t i = 0; i < size; ++i) EXPECT_EQ(wide[i], double(values[i])) << i << " of " << size;
        EXPECT_EQ(wide[size], -1) << size;
    }
}

TEST_P(EveryInstructionSet, FindsNoExtremesWhereEverythingIsHidden) {
    const std::vector<double> hidden(11, -infinity);
    const std::vector<double> error(11, 0);
    const RowExtremes found = kernels().row_extremes(hidden, error.data(), 0);
    EXPECT_EQ(found.most, -infinity);
    EXPECT_EQ(found.lower, -infinity);
    EXPECT_EQ(found.upper, -infinity);
}

INSTANTIATE_TEST_SUITE_P(VectorKernels, EveryInstructionSet,
                         ::testing::ValuesIn(runnable_vector_kernels().begin(),
                                             runnable_vector_kernels().end()),
                         [](const auto& param) { return name_of(*param.param); });

TEST(VectorKernels, BestInstructionSetIsOneOfThoseThatAreTested) {
    const auto runnable = runnable_vector_kernels();
    ASSERT_FALSE(runnable.empty());
    EXPECT_NE(std::ranges::find(runnable, &vector_kernels()), runnable.end());
}

}  // namespace
}  // namespace tilescope::test
