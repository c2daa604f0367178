// The oracle's products and the bounds of their partial sums, for every instruction set that this processor has, against plain
// loops in long double.

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "oracle/formula/products.h"
#include "oracle/formula/vector_kernels.h"
#include "tests/oracle/strided_matrix.h"

namespace tilescope::test {
namespace {

using Real = long double;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

enum class Data { random, cancelling, tiny, huge, growing };

/// Cancelling: each term takes back most of the one before. Growing: none is negative.
double element(Data data, std::int64_t term, std::mt19937_64& random) {
    const double value = std::normal_distribution<double>()(random);
    switch (data) {
        case Data::random:
            return value;
        case Data::cancelling:
            return (term % 2 == 0 ? 1000 : -1000) + value;
        case Data::tiny:
            return value * 1e-13;
        case Data::huge:
            return value * 1e13;
        case Data::growing:
            return std::abs(value) * std::exp(double(term) / 20);
    }
    return value;
}

struct Product {
    bool transposed;
    Data data;
    std::int64_t terms;
    Strided a;
    Strided b;
    Strided start;

    Product(bool is_transposed, Data of, std::int64_t count, std::int64_t gap)
        : transposed(is_transposed),
          data(of),
          terms(count),
          a(5, count, gap),
          b(transposed ? 7 : count, transposed ? count : 7, gap + 1),
          start(5, 7, gap + 2) {
        std::mt19937_64 random(std::uint64_t(count) * 31 + std::uint64_t(of));
        for (std::int64_t t = 0; t < terms; ++t) {
            for (std::int64_t i = 0; i < a.rows; ++i) a.at(i, t) = element(data, t, random);
            // One factor alone changes its sign, or the products would not cancel.
            for (std::int64_t j = 0; j < start.cols; ++j)
                (transposed ? b.at(j, t) : b.at(t, j)) = std::abs(element(data, t, random));
        }
        for (std::int64_t i = 0; i < start.rows; ++i)
            for (std::int64_t j = 0; j < start.cols; ++j)
                start.at(i, j) = element(data, 0, random) * element(data, 0, random);
    }
    Real term(std::int64_t i, std::int64_t j, std::int64_t t) const {
        return Real(a.at(i, t)) * Real(transposed ? b.at(j, t) : b.at(t, j));
    }
};

/// The sum, and what its bound is held against: of terms that grow, too, what those give that are added from the last to the
/// first, whose partial sums are larger.
struct ExactSum {
    Real sum;
    Real magnitude = 0;  ///< of all that was added
    Real linear = 0;     ///< sum of |partial sum|
    Real squares = 0;    ///< and of its square

    ExactSum(const Product& product, std::int64_t i, std::int64_t j) : sum(product.start.at(i, j)) {
        magnitude = std::abs(sum);
        for (std::int64_t t = 0; t < product.terms; ++t) {
            sum += product.term(i, j, t);
            magnitude += std::abs(product.term(i, j, t));
            linear += std::abs(sum);
            squares += sum * sum;
        }
        if (product.data == Data::growing) add_reversed(product, i, j);
    }

 private:
    void add_reversed(const Product& product, std::int64_t i, std::int64_t j) {
        Real partial = product.start.at(i, j);
        linear = squares = 0;
        for (std::int64_t t = product.terms; t-- > 0;) {
            partial += product.term(i, j, t);
            linear += partial;
            squares += partial * partial;
        }
    }
};

/// No partial sum is larger than the magnitude of all terms, and each is bounded by half the product of the
/// norms more.
double largest_bound(const Product& product, const ExactSum& exact, std::int64_t i, std::int64_t j) {
    Real a_squares = 0;
    Real b_squares = 0;
    for (std::int64_t t = 0; t < product.terms; ++t) {
        a_squares += std::pow(Real(product.a.at(i, t)), 2);
        b_squares += std::pow(Real(product.transposed ? product.b.at(j, t) : product.b.at(t, j)), 2);
    }
    const Real most = exact.magnitude + std::sqrt(a_squares * b_squares) / 2;
    return double(Real(product.terms) * most) * (1 + 1e-5);
}

/// Bounds of partial sums are kept in float32; whoever takes them allows for more.
constexpr double kept = 1 - 1e-5;

class EveryProduct : public ::testing::TestWithParam<const VectorKernels*> {
 protected:
    const VectorKernels& kernels() const { return *GetParam(); }
    template <class Check>
    void for_every_product(Check check) const {
        for (const bool transposed : {false, true}) {
            for (const Data data : {Data::random, Data::cancelling, Data::tiny, Data::huge, Data::growing}) {
                for (const std::int64_t terms : {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 199, 200}) {
                    for (const std::int64_t gap : {0, 3}) {
                        SCOPED_TRACE("transposed " + std::to_string(transposed) + " data " +
                                     std::to_string(int(data)) + " terms " + std::to_string(terms) + " gap " +
                                     std::to_string(gap));
                        check(Product(transposed, data, terms, gap));
                    }
                }
            }
        }
    }
};

/// As the kernels take its operands.
class Taken {
 public:
    Taken(const VectorKernels& kernels, const Product& product) {
        const std::int64_t width = kernels.panel_cols;
        const std::int64_t cols = product.transposed ? product.b.rows : product.b.cols;
        const std::int64_t panels = (cols + width - 1) / width;
        values_.resize(std::size_t(panels * product.terms * width), nan);
        norms_.resize(std::size_t(panels * ((product.terms + chunk_terms - 1) / chunk_terms) * width));
        whole_norms_.resize(std::size_t(panels * width));
        kernels.pack(product.b.in(), product.transposed, values_.data(), norms_.data(), whole_norms_.data());
        a_norms_.resize(std::size_t(product.a.rows * ((product.terms + chunk_terms - 1) / chunk_terms)));
        kernels.norms_of_rows(product.a.in(), a_norms_.data(), nullptr);
    }
    PackedColumns columns() const { return {values_.data(), norms_.data()}; }
    const float* a_norms() const { return a_norms_.data(); }

 private:
    std::vector<double> values_;
    std::vector<float> norms_;
    std::vector<double> whole_norms_;
    std::vector<float> a_norms_;
};

/// Float64 rounds each product and each addition.
void expect_sum(double got, const Product& product, const ExactSum& exact) {
    const Real difference = std::abs(Real(got) - exact.sum);
    ASSERT_LE(double(difference), double(exact.magnitude) * double(product.terms + 1) * 0x1p-53);
}

TEST_P(EveryProduct, AddsProductsUp) {
    for_every_product([&](const Product& product) {
        Strided sum = product.start;
        kernels().add_product(product.a.in(), Taken(kernels(), product).columns(), sum.out());
        ASSERT_TRUE(sum.gaps_are_untouched());
        for (std::int64_t i = 0; i < sum.rows; ++i)
            for (std::int64_t j = 0; j < sum.cols; ++j)
                expect_sum(sum.at(i, j), product, ExactSum(product, i, j));
    });
}

/// With `squares` the root of the sum of the squares, in whose place nothing is as small; or sum |s_i|.
void expect_bounds(const VectorKernels& kernels, const Product& product, bool squares) {
    const SumBound bound{.per_partial_sum = squares ? 1e6 : 1.0, .per_root_squares = squares ? 1.0 : 0.0};
    Strided sum = product.start;
    Strided error(sum.rows, sum.cols, 4);
    const Taken taken(kernels, product);
    kernels.sum_of_products(product.a.in(), taken.a_norms(), taken.columns(), product.start.in(), bound,
                            sum.out(), error.out());
    ASSERT_TRUE(sum.gaps_are_untouched() && error.gaps_are_untouched());
    for (std::int64_t i = 0; i < sum.rows; ++i) {
        for (std::int64_t j = 0; j < sum.cols; ++j) {
            const ExactSum exact(product, i, j);
            expect_sum(sum.at(i, j), product, exact);
            const Real least = squares ? std::sqrt(exact.squares) : exact.linear;
            ASSERT_GE(error.at(i, j), double(least) * kept) << "squares " << squares;
            // Float32 has no squares of what is tiny or huge: then the certain bound is taken.
            if (squares && (product.data == Data::tiny || product.data == Data::huge)) continue;
            ASSERT_LE(error.at(i, j), largest_bound(product, exact, i, j)) << "squares " << squares;
        }
    }
}

/// The bound is at least what the definition of the partial sums gives, and at most what is promised of it.
TEST_P(EveryProduct, BoundsThePartialSumsOfProducts) {
    for_every_product([&](const Product& product) {
        expect_bounds(kernels(), product, false);
        expect_bounds(kernels(), product, true);
    });
}

TEST_P(EveryProduct, TakesTheSmallerOfTwoBoundsAndAddsTheRest) {
    const Product product(true, Data::random, 50, 1);
    const auto run = [&](const SumBound& bound, Strided& sum) {
        Strided error(sum.rows, sum.cols, 0);
        sum = product.start;
        const Taken taken(kernels(), product);
        kernels().sum_of_products(product.a.in(), taken.a_norms(), taken.columns(), sum.in(), bound,
                                  sum.out(), error.out());
        return error;
    };
    Strided plain = product.start;
    Strided scaled = product.start;
    const Strided linear = run({.per_partial_sum = 0.5}, plain);
    const Strided root = run({.per_partial_sum = 1e6, .per_root_squares = 2}, plain);
    const Strided both = run({.per_partial_sum = 0.5, .per_root_squares = 2}, plain);
    const Strided all = run(
        {.per_partial_sum = 0.5, .per_root_squares = 2, .per_value = 0.25, .constant = 3, .scale = -0.125},
        scaled);
    for (std::int64_t i = 0; i < plain.rows; ++i) {
        for (std::int64_t j = 0; j < plain.cols; ++j) {
            EXPECT_DOUBLE_EQ(both.at(i, j), std::min(linear.at(i, j), root.at(i, j)));
            EXPECT_DOUBLE_EQ(scaled.at(i, j), plain.at(i, j) * -0.125);
            EXPECT_DOUBLE_EQ(all.at(i, j), both.at(i, j) + 0.25 * std::abs(scaled.at(i, j)) + 3);
        }
    }
}

/// Term by term, beside a column that is no number.
TEST(GuardedProduct, BoundsThePartialSumsFromTheFirstTermAndFromTheLast) {
    constexpr Eigen::Index terms = 40;
    Matrix a(1, terms);
    for (Eigen::Index t = 0; t < terms; ++t) a(0, t) = std::exp(double(t) / 5);
    Matrix b = Matrix::Ones(terms, 2);
    b(3, 1) = nan;
    const Matrix start = Matrix::Constant(1, 2, 0.5);
    const Estimate sum = guarded_product(start, a, nullptr, Matrix::Zero(1, terms), b, 1);
    Real forward = 0;
    Real reversed = 0;
    Real first = 0.5;
    Real last = 0.5;
    for (Eigen::Index t = 0; t < terms; ++t) {
        forward += first += Real(a(0, t));
        reversed += last += Real(a(0, terms - 1 - t));
    }
    EXPECT_GT(reversed, 3 * forward);
    EXPECT_GE(sum.error(0, 0), double(reversed) * kept);
    EXPECT_TRUE(std::isnan(sum.value(0, 1)));
}

INSTANTIATE_TEST_SUITE_P(VectorProducts, EveryProduct,
                         ::testing::ValuesIn(runnable_vector_kernels().begin(),
                                             runnable_vector_kernels().end()),
                         [](const auto& param) { return name_of(*param.param); });

}  // namespace
}  // namespace tilescope::test
