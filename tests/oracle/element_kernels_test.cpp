// The kernels of elements against the operations of one element, on ordinary numbers and on the others.

#include "oracle/program/element_kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "dump/schema/dtype.h"
#include "oracle/program/functions.h"

namespace tilescope {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct Elements {
    std::vector<double> value;
    std::vector<double> error;

    ElementSpan span() const { return {value.data(), error.data()}; }
    Uncertain at(std::size_t i) const { return {value[i], error[i]}; }
};

Elements ordinary(std::size_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> number;
    Elements elements;
    for (std::size_t i = 0; i < count; ++i) {
        elements.value.push_back(i % 11 == 0 ? 0 : i % 13 == 0 ? 1 : number(random));
        elements.error.push_back(i % 3 == 0 ? 0 : 1e-6 * std::abs(number(random)));
    }
    return elements;
}

/// NaN, infinities, what is beyond float32, and what is hardly known, each beside ordinary numbers.
Elements unusual() {
    return {{std::nan(""), inf, -inf, 3e38, 1e39, 1, -1000, 0.5}, {0, 0, 0, 1e38, 0, inf, 0, 3}};
}

using Kernel = std::function<bool(const ElementKernels&, const std::vector<Elements>&, ElementResult)>;
using OfOne = std::function<Uncertain(const std::vector<Elements>&, std::size_t)>;

struct Operation {
    const char* name;
    Kernel kernel;
    OfOne of_one;
};

std::int64_t count_of(const std::vector<Elements>& of) {
    return std::int64_t(of[0].value.size());
}

const Operation operations[] = {
    {"added",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.added(of[0].span(), of[1].span(), count_of(of), to);
     },
     [](const std::vector<Elements>& of, std::size_t i) {
         return in_range(added(of[0].at(i), of[1].at(i)));
     }},
    {"multiplied",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.multiplied(of[0].span(), of[1].span(), count_of(of), to);
     },
     [](const std::vector<Elements>& of, std::size_t i) {
         return in_range(product_of(of[0].at(i), of[1].at(i)));
     }},
    {"exp",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.exponentials(of[0].span(), count_of(of), to);
     },
     [](const std::vector<Elements>& of, std::size_t i) {
         return in_range(function_of(ProgramFunction::exp, of[0].at(i)));
     }},
    {"exp2 of a difference",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.exponentials_of_differences(of[0].span(), of[1].span(), std::numbers::ln2, count_of(of),
                                              to);
     },
     [](const std::vector<Elements>& of, std::size_t i) {
         return in_range(exponential_of_difference(ProgramFunction::exp2, of[0].at(i), of[1].at(i)));
     }},
    {"float16",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.cast({11, 0x1p-14, 65504}, of[0].span(), count_of(of), to);
     },
     [](const std::vector<Elements>& of, std::size_t i) { return cast_to(Dtype::f16, of[0].at(i)); }},
    {"e4m3",
     [](const ElementKernels& k, const std::vector<Elements>& of, ElementResult to) {
         return k.cast({4, 0x1p-6, 448}, of[0].span(), count_of(of), to);
     },
     [](const std::vector<Elements>& of, std::size_t i) { return cast_to(Dtype::e4m3, of[0].at(i)); }},
};

void expect_same(const Operation& operation, const ElementKernels& kernels, const std::vector<Elements>& of) {
    const std::size_t count = of[0].value.size();
    Elements made{std::vector<double>(count), std::vector<double>(count)};
    if (!operation.kernel(kernels, of, {made.value.data(), made.error.data()})) return;
    for (std::size_t i = 0; i < count; ++i) {
        const Uncertain one = operation.of_one(of, i);
        const double rounding = 0x1p-48 * std::abs(one.value);
        EXPECT_NEAR(made.value[i], one.value, rounding)
            << operation.name << " " << kernels.instruction_set << " " << i;
        EXPECT_GE(made.error[i] + rounding, one.error * (1 - 1e-12)) << operation.name << " " << i;
        EXPECT_LE(made.error[i], one.error * 1.001 + rounding + 0x1p-125) << operation.name << " " << i;
    }
}

TEST(ElementKernels, OrdinaryNumbersAreThoseOfOneElement) {
    for (const ElementKernels* const kernels : runnable_element_kernels()) {
        for (const Operation& operation : operations) {
            const std::vector<Elements> of = {ordinary(1003, 1), ordinary(1003, 2)};
            Elements made{std::vector<double>(1003), std::vector<double>(1003)};
            EXPECT_TRUE(operation.kernel(*kernels, of, {made.value.data(), made.error.data()}))
                << operation.name;
            expect_same(operation, *kernels, of);
        }
    }
}

/// Either the kernel says that it cannot, or it makes the same.
TEST(ElementKernels, UnusualNumbersAreLeftToTheOperationsOfOneElement) {
    const Elements others = unusual();
    for (const ElementKernels* const kernels : runnable_element_kernels()) {
        for (const Operation& operation : operations) {
            for (std::size_t i = 0; i < others.value.size(); ++i) {
                for (const std::size_t of : {0U, 1U}) {
                    std::vector<Elements> both = {ordinary(9, 3), ordinary(9, 4)};
                    both[of].value[5] = others.value[i];
                    both[of].error[5] = others.error[i];
                    expect_same(operation, *kernels, both);
                }
            }
        }
    }
}

TEST(ElementKernels, Float16CodesAreDecoded) {
    std::vector<std::uint16_t> codes;
    for (std::uint32_t code = 0; code < 0x10000; ++code)
        if ((code & 0x7c00) != 0x7c00) codes.push_back(std::uint16_t(code));
    std::vector<double> values(codes.size());
    for (const ElementKernels* const kernels : runnable_element_kernels()) {
        const auto* const bits = reinterpret_cast<const std::byte*>(codes.data());
        EXPECT_TRUE(kernels->decoded(ElementCode::f16, bits, std::int64_t(codes.size()), values.data()));
        for (std::size_t i = 0; i < codes.size(); ++i)
            ASSERT_EQ(values[i], double(decode(Dtype::f16, codes[i]))) << codes[i];
        const std::uint16_t infinity = 0x7c00;
        EXPECT_FALSE(kernels->decoded(ElementCode::f16, reinterpret_cast<const std::byte*>(&infinity), 1,
                                      values.data()));
    }
}

TEST(ElementKernels, OneElementThatIsOutsideIsSeen) {
    const Elements expected = ordinary(100, 5);
    for (const ElementKernels* const kernels : runnable_element_kernels()) {
        std::vector<double> got = expected.value;
        EXPECT_TRUE(kernels->held(got.data(), expected.span(), 100).is_plain);
        for (const double wrong : {1.0, std::nan(""), inf}) {
            got[77] = expected.value[77] + wrong;
            EXPECT_FALSE(kernels->held(got.data(), expected.span(), 100).is_plain);
        }
    }
}

}  // namespace
}  // namespace tilescope
