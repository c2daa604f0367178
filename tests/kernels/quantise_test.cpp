#include "kernels/run/quantise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "kernels/attention/along_keys.h"
#include "kernels/run/quantise_inputs.h"
#include "kernels/run/reports.h"

namespace tilescope {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// The number that a code stands for, from the definition of OCP e4m3: 0x7f and 0xff are NaN.
double value_of(int code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    if ((code & 0x7f) == 0x7f) return double(nan);
    const double magnitude =
        exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return code >= 0x80 ? -magnitude : magnitude;
}

/// The nearest of all codes of the value's sign; of two that are as near, the even one.
int nearest_code(float value) {
    if (std::isnan(value)) return 0x7f;
    const int sign = std::signbit(value) ? 0x80 : 0;
    int best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int code = 0; code < 0x7f; ++code) {
        const double distance = std::abs(std::min(std::abs(double(value)), 1e30) - value_of(code));
        if (distance < least || (distance == least && code % 2 == 0)) {
            least = distance;
            best = code;
        }
    }
    return sign | best;
}

int code_at(const Quantised& quantised, std::size_t i) {
    return std::to_integer<int>(quantised.codes[i]);
}

/// With 448 in its group a value of at most 448 has the scale 1.
int code_with_scale_one(float value) {
    const float values[] = {value, 448.0f};
    const Quantised quantised = quantise(values, per_tensor(1, 1, 2));
    EXPECT_EQ(quantised.scales, std::vector{1.0f});
    return code_at(quantised, 0);
}

TEST(Quantise, LaysCodesAlongTheKeysInTheOrderOfAProductsOperand) {
    // A thread has columns 2 t, 2 t + 1 of each 8 of an accumulator, and codes 4 t to 4 t + 3 of each 16 of an
    // operand. Source: PTX ISA, register fragments of wgmma for .f32 and for 8 bits.
    constexpr int keys[] = {0,  1,  8,  9,  2,  3,  10, 11, 4,  5,  12, 13, 6,  7,  14, 15,
                            16, 17, 24, 25, 18, 19, 26, 27, 20, 21, 28, 29, 22, 23, 30, 31};
    constexpr int matrices = 2, rows = 77, cols = 3, pitch = 128;
    std::vector<std::byte> codes;
    for (int matrix = 0; matrix < matrices; ++matrix) {
        for (int key = 0; key < rows; ++key) {
            for (int col = 0; col < cols; ++col) codes.push_back(std::byte(1 + key + 80 * (matrix + col)));
        }
    }
    const std::vector<std::byte> laid = along_keys(codes, per_head(matrices, rows, cols));
    ASSERT_EQ(laid.size(), std::size_t(matrices * cols * pitch));
    for (int feature = 0; feature < matrices * cols; ++feature) {
        for (int place = 0; place < pitch; ++place) {
            const int key = place / 32 * 32 + keys[place % 32];
            EXPECT_EQ(key_along_keys(place), key) << place;
            const int code = key < rows ? 1 + key + 80 * (feature / cols + feature % cols) : 0;
            EXPECT_EQ(laid[std::size_t(feature * pitch + place)], std::byte(code)) << feature << " " << place;
        }
    }
}

TEST(Quantise, TakesTheNearestCodeAndTheEvenOneOfTwo) {
    for (int code = 0; code < 256; ++code) {
        const auto value = float(value_of(code));
        if (std::isnan(value)) continue;
        EXPECT_EQ(code_with_scale_one(value), code);
        if ((code & 0x7f) == 0x7e) continue;
        // Halfway to the next code, and the floats around it.
        const auto half = float((value_of(code) + value_of(code + 1)) / 2);
        for (float near : {std::nextafter(half, -infinity), half, std::nextafter(half, infinity)}) {
            EXPECT_EQ(code_with_scale_one(near), nearest_code(near)) << near;
        }
    }
    constexpr std::uint64_t seed = 5;
    std::mt19937_64 random(seed);
    for (int i = 0; i < 20000; ++i) {
        const auto bits = std::uint32_t(random());
        const float value = std::bit_cast<float>(bits);
        if (std::isnan(value) || std::abs(value) > 448) continue;
        ASSERT_EQ(code_with_scale_one(value), nearest_code(value)) << value << " seed " << seed;
    }
}

TEST(Quantise, ScalesByTheLargestMagnitudeOfAGroup) {
    constexpr std::uint64_t seed = 11;
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
    constexpr std::int64_t heads = 3, rows = 7, cols = 5;
    std::vector<float> values(std::size_t(heads * rows * cols));
    for (float& value : values) value = uniform(random);
    const auto row_block = [&](std::int64_t head, std::int64_t first, std::int64_t end) {
        float amax = 0;
        for (std::int64_t i = (head * rows + first) * cols; i < (head * rows + end) * cols; ++i)
            amax = std::max(amax, std::abs(values[std::size_t(i)]));
        return amax / 448.0f;
    };
    EXPECT_EQ(quantise(values, per_tensor(heads, rows, cols)).scales,
              std::vector{row_block(0, 0, heads * rows)});
    EXPECT_EQ(quantise(values, per_head(heads, rows, cols)).scales,
              (std::vector{row_block(0, 0, 7), row_block(1, 0, 7), row_block(2, 0, 7)}));
    const Quantised blocks = quantise(values, per_block(heads, rows, cols, 4));
    EXPECT_EQ(blocks.scales, (std::vector{row_block(0, 0, 4), row_block(0, 4, 7), row_block(1, 0, 4),
                                          row_block(1, 4, 7), row_block(2, 0, 4), row_block(2, 4, 7)}));
    for (std::int64_t i = 0; i < heads * rows * cols; ++i) {
        const std::int64_t row = i / cols;
        const float scale = blocks.scales[std::size_t(row / rows * 2 + row % rows / 4)];
        EXPECT_EQ(code_at(blocks, std::size_t(i)), nearest_code(values[std::size_t(i)] / scale))
            << i << " seed " << seed;
    }
}

TEST(Quantise, AZeroTensorHasTheScaleOne) {
    const float values[] = {0.0f, -0.0f, 0.0f, 0.0f, 1.0f, 2.0f};
    const Quantised quantised = quantise(values, per_block(1, 3, 2, 1));
    EXPECT_EQ(quantised.scales, (std::vector{1.0f, 1.0f, 2.0f / 448.0f}));
    EXPECT_EQ(code_at(quantised, 0), 0x00);
    EXPECT_EQ(code_at(quantised, 1), 0x80);
    EXPECT_EQ(code_at(quantised, 5), 0x7e);

    // So small that the quotient is 0: as good as zero.
    const float tiny[] = {1e-45f, 0.0f};
    EXPECT_EQ(quantise(tiny, per_tensor(1, 1, 2)).scales, std::vector{1.0f});
}

TEST(Quantise, InfinitySaturatesAndNanStays) {
    const float values[] = {infinity, -infinity, nan, -nan, 7.0f, -3.5f};
    const Quantised quantised = quantise(values, per_tensor(1, 1, 6));
    EXPECT_EQ(quantised.scales, std::vector{7.0f / 448.0f});
    const int expected[] = {0x7e, 0xfe, 0x7f, 0x7f, 0x7e, 0xf6};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(code_at(quantised, i), expected[i]) << i;
    const float nothing_finite[] = {infinity, nan};
    EXPECT_EQ(quantise(nothing_finite, per_tensor(1, 1, 2)).scales, std::vector{1.0f});
}

TEST(Quantise, ErrorIsThatOfTheDequantisedValues) {
    // 448, 1 and 17 with the scale 1: 17 lies between 16 and 18, of which 16 has the even code.
    const float values[] = {448.0f, 1.0f, 17.0f, nan};
    const ScaleGroups groups = per_tensor(1, 1, 4);
    const QuantisationError error = quantisation_error(values, quantise(values, groups), groups);
    EXPECT_DOUBLE_EQ(error.rms, 1.0 / std::sqrt(448.0 * 448.0 + 1.0 + 17.0 * 17.0));
    EXPECT_DOUBLE_EQ(error.largest, 1.0 / 448.0);
    const float zeros[] = {0.0f, 0.0f};
    EXPECT_EQ(quantisation_error(zeros, quantise(zeros, per_tensor(1, 1, 2)), per_tensor(1, 1, 2)).rms, 0);
}

TEST(Quantise, OperandsHaveADescaleForEachHead) {
    Problem problem;
    problem.batch = 2;
    problem.heads = 4;
    problem.heads_kv = 2;
    problem.seqlen_q = 5;
    problem.seqlen_kv = 9;
    problem.head_dim = problem.head_dim_v = 64;
    const InputKind& kind = *find_input_kind("zero_head");
    const RunInputs halves = make_inputs(problem, kind, 3);
    EXPECT_TRUE(halves.side.descale_q.empty());
    problem.dtype_q = problem.dtype_k = problem.dtype_v = Dtype::e4m3;
    const RunInputs inputs = make_inputs(problem, kind, 3);
    EXPECT_EQ(inputs.originals.q, halves.q);
    EXPECT_EQ(inputs.originals.v, halves.v);
    EXPECT_EQ(inputs.k.size(), halves.k.size() / 2);
    validate(inputs.side, problem, "test");
    EXPECT_EQ(inputs.side.descale_q.values.size(), 8u);
    EXPECT_EQ(inputs.side.descale_k.values.size(), 4u);
    for (std::int64_t batch : {0, 1}) {
        EXPECT_EQ(inputs.side.descale_k.at(batch, 0, 0), 1.0f);
        EXPECT_NE(inputs.side.descale_k.at(batch, 1, 0), 1.0f);
        EXPECT_EQ(inputs.side.descale_v.at(batch, 1, 8), 1.0f);
    }
    const std::string text = to_text(quantisation_errors(problem, inputs));
    for (const char* part : {": q 0.0", "; k 0.0", "; v 0.0"}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    // Normal numbers lose at most 1/16 of themselves, a third of that on the average.
    for (const QuantisationError& error : quantisation_errors(problem, inputs)) {
        EXPECT_GT(error.rms, 0.01);
        EXPECT_LT(error.rms, 1.0 / 16);
    }
}

}  // namespace
}  // namespace tilescope
