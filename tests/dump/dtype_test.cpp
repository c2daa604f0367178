#include "dump/schema/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace tilescope {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr std::uint64_t incomparable = std::numeric_limits<std::uint64_t>::max();

/// The narrow formats as IEEE 754-2019 (binary16), the bfloat16 definition and the OCP 8-bit and Microscaling
/// specifications 1.0 describe them.
struct Format {
    Dtype dtype;
    int width;
    int mantissa_bits;
    int bias;
    std::uint32_t max_finite;
};
constexpr std::array<Format, 5> formats = {{
    {Dtype::f16, 16, 10, 15, 0x7bff},
    {Dtype::bf16, 16, 7, 127, 0x7f7f},
    {Dtype::e4m3, 8, 3, 7, 0x7e},
    {Dtype::e5m2, 8, 2, 15, 0x7b},
    {Dtype::e2m1, 4, 1, 1, 0x7},
}};

/// Value of a finite positive code by the definition of the formats.
double value_of(const Format& format, std::uint32_t code) {
    const std::uint32_t mantissa = code & ((1u << format.mantissa_bits) - 1);
    const int exponent = int(code >> format.mantissa_bits);
    if (exponent == 0) return std::ldexp(double(mantissa), 1 - format.bias - format.mantissa_bits);
    const double significand = 1.0 + std::ldexp(double(mantissa), -format.mantissa_bits);
    return std::ldexp(significand, exponent - format.bias);
}

TEST(Dtype, NamesReadBack) {
    for (const char* name : {"f32", "f16", "bf16", "e4m3", "e5m2", "e2m1", "ue8m0"}) {
        const auto dtype = dtype_from_name(name);
        ASSERT_TRUE(dtype.has_value()) << name;
        EXPECT_EQ(dtype_info(*dtype).name, name);
    }
    EXPECT_FALSE(dtype_from_name("fp16").has_value());
    EXPECT_FALSE(dtype_from_name("").has_value());
}

// OCP Microscaling Formats, section 5.3.3 and 6.3: all codes of e2m1, and powers of two.
TEST(Dtype, BlockScaledFormatsAreThoseOfTheSpecification) {
    const float numbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (std::uint32_t code = 0; code < 8; ++code) {
        EXPECT_EQ(decode(Dtype::e2m1, code), numbers[code]);
        EXPECT_EQ(decode(Dtype::e2m1, 0xf0 | 8 | code), -numbers[code]);
        EXPECT_EQ(encode(Dtype::e2m1, -double(numbers[code])), 8 | code);
    }
    for (const double most : {5.0, 7.0, 1e30, infinite, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_EQ(encode(Dtype::e2m1, most), most == 5 ? 6u : 7u);
    EXPECT_EQ(decode(Dtype::ue8m0, 0), 0x1p-127f);
    EXPECT_EQ(decode(Dtype::ue8m0, 127), 1.0f);
    EXPECT_EQ(decode(Dtype::ue8m0, 254), 0x1p127f);
    EXPECT_TRUE(std::isnan(decode(Dtype::ue8m0, 255)));
    EXPECT_EQ(encode(Dtype::ue8m0, 1.0), 127u);
    EXPECT_EQ(encode(Dtype::ue8m0, -1.0000001), 128u);
    EXPECT_EQ(encode(Dtype::ue8m0, 0.0), 0u);
    EXPECT_EQ(encode(Dtype::ue8m0, infinite), 255u);
    EXPECT_EQ(encode(Dtype::ue8m0, infinite, Overflow::saturate), 254u);
    EXPECT_EQ(ulp_distance(Dtype::ue8m0, 1, 8), 3u);
    EXPECT_EQ(unit_roundoff(Dtype::ue8m0), 1);
    for (const DtypeInfo& info : attention_dtypes()) EXPECT_NE(info.bits, 4) << info.name;
}

TEST(Dtype, FactsMatchTheStandards) {
    for (const Format& format : formats) {
        const DtypeInfo& info = dtype_info(format.dtype);
        EXPECT_EQ(info.bits, format.width);
        EXPECT_EQ(info.significand_bits, format.mantissa_bits + 1);
        EXPECT_EQ(info.min_exponent, 1 - format.bias);
        EXPECT_EQ(double(info.max_finite), value_of(format, format.max_finite));
        EXPECT_EQ(half_quantum(format.dtype), value_of(format, 1) / 2);
    }
    EXPECT_EQ(dtype_info(Dtype::f32).max_finite, std::numeric_limits<float>::max());
    EXPECT_EQ(unit_roundoff(Dtype::f32), 0x1p-24);
    EXPECT_EQ(unit_roundoff(Dtype::f16), 0x1p-11);
    EXPECT_EQ(unit_roundoff(Dtype::bf16), 0x1p-8);
    EXPECT_EQ(unit_roundoff(Dtype::e4m3), 0x1p-4);
    EXPECT_EQ(unit_roundoff(Dtype::e5m2), 0x1p-3);
    EXPECT_EQ(half_quantum(Dtype::f32), 0x1p-150);
}

TEST(Dtype, DecodesKnownCodes) {
    struct Row {
        Dtype dtype;
        std::uint32_t bits;
        float value;
    };
    const Row rows[] = {
        {Dtype::f16, 0x3c00, 1.0f},
        {Dtype::f16, 0x3555, 0.333251953125f},
        {Dtype::f16, 0x0001, 0x1p-24f},
        {Dtype::f16, 0x0400, 0x1p-14f},
        {Dtype::f16, 0xfbff, -65504.0f},
        {Dtype::f16, 0xfc00, float(-infinite)},
        {Dtype::bf16, 0x3f80, 1.0f},
        {Dtype::bf16, 0x4049, 3.140625f},
        {Dtype::bf16, 0x0001, 0x1p-133f},
        {Dtype::bf16, 0x7f80, float(infinite)},
        {Dtype::e4m3, 0x38, 1.0f},
        {Dtype::e4m3, 0x7e, 448.0f},
        {Dtype::e4m3, 0x01, 0x1p-9f},
        {Dtype::e4m3, 0x08, 0x1p-6f},
        {Dtype::e4m3, 0xfe, -448.0f},
        {Dtype::e5m2, 0x3c, 1.0f},
        {Dtype::e5m2, 0x7b, 57344.0f},
        {Dtype::e5m2, 0x01, 0x1p-16f},
        {Dtype::e5m2, 0xfc, float(-infinite)},
        {Dtype::f32, 0x40490fdb, 3.14159274f},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(decode(row.dtype, row.bits), row.value)
            << dtype_info(row.dtype).name << " 0x" << std::hex << row.bits;
    }
    for (const std::uint32_t nan : {0x7fu, 0xffu}) EXPECT_TRUE(std::isnan(decode(Dtype::e4m3, nan)));
    for (const std::uint32_t nan : {0x7du, 0x7eu, 0x7fu, 0xffu}) {
        EXPECT_TRUE(std::isnan(decode(Dtype::e5m2, nan)));
    }
}

TEST(Dtype, DecodesEveryCodeByTheDefinition) {
    for (const Format& format : formats) {
        const std::uint32_t sign = 1u << (format.width - 1);
        const bool has_infinity = format.dtype != Dtype::e4m3;
        for (std::uint32_t code = 0; code < sign; ++code) {
            const float positive = decode(format.dtype, code);
            const float negative = decode(format.dtype, code | sign);
            if (code <= format.max_finite) {
                ASSERT_EQ(double(positive), value_of(format, code)) << dtype_info(format.dtype).name << code;
                ASSERT_EQ(-positive, negative);
                ASSERT_TRUE(std::signbit(negative));
            } else if (has_infinity && code == format.max_finite + 1) {
                ASSERT_EQ(double(positive), infinite);
                ASSERT_EQ(double(negative), -infinite);
            } else {
                ASSERT_TRUE(std::isnan(positive) && std::isnan(negative));
            }
        }
    }
}

TEST(Dtype, NanKeepsItsLeadingPayloadBits) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(decode(Dtype::f16, 0x7fff)), 0x7fffe000u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(decode(Dtype::f16, 0xfe01)), 0xffc02000u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(decode(Dtype::bf16, 0x7fc1)), 0x7fc10000u);
}

TEST(Dtype, IgnoresBitsAboveTheWidth) {
    EXPECT_EQ(decode(Dtype::f16, 0xabcd3c00u), 1.0f);
    EXPECT_EQ(decode(Dtype::bf16, 0xabcd3f80u), 1.0f);
    EXPECT_EQ(decode(Dtype::e4m3, 0xabcdef38u), 1.0f);
    EXPECT_EQ(decode(Dtype::e5m2, 0xabcdef3cu), 1.0f);
}

TEST(Dtype, DecodesArrays) {
    const std::array<std::byte, 6> bits = {std::byte(0x00), std::byte(0x3c), std::byte(0x00),
                                           std::byte(0xc0), std::byte(0x01), std::byte(0x00)};
    std::array<float, 3> halves = {};
    decode_array(Dtype::f16, bits, halves);
    EXPECT_EQ(halves, (std::array<float, 3>{1.0f, -2.0f, 0x1p-24f}));
    std::array<float, 6> eighths = {};
    decode_array(Dtype::e4m3, bits, eighths);
    EXPECT_EQ(eighths, (std::array<float, 6>{0.0f, 1.5f, 0.0f, -2.0f, 0x1p-9f, 0.0f}));
    std::array<float, 1> single = {};
    const std::array<std::byte, 4> pi = {std::byte(0xdb), std::byte(0x0f), std::byte(0x49), std::byte(0x40)};
    decode_array(Dtype::f32, pi, single);
    EXPECT_EQ(single[0], 3.14159274f);
}

TEST(Dtype, CodesOfOneByteStandForNumbers) {
    const std::array codes = {std::byte(0), std::byte(127), std::byte(128), std::byte(255)};
    const ByteCodes quarters = byte_codes([](int code) { return float(code - 128) * 0.25f; }, false);
    std::array<std::byte, 16> singles;
    dequantize_array(quarters, codes, Dtype::f32, singles);
    std::array<float, 4> values;
    decode_array(Dtype::f32, singles, values);
    EXPECT_EQ(values, (std::array{-32.0f, -0.25f, 0.0f, 31.75f}));

    // Numbers of float16 lie 2^-7 apart between 8 and 16.
    const ByteCodes tenths = byte_codes([](int code) { return float(code) * 0.1f; }, true);
    std::array<std::byte, 8> halves;
    dequantize_array(tenths, codes, Dtype::f16, halves);
    decode_array(Dtype::f16, halves, values);
    EXPECT_EQ(values, (std::array{0.0f, 12.703125f, -12.796875f, -0.0999755859375f}));
}

/// Every number, every midpoint between two of them, and the float64 neighbours of each midpoint.
TEST(Dtype, EncodesEveryTieToEven) {
    for (const Format& format : formats) {
        const std::uint32_t sign = 1u << (format.width - 1);
        for (std::uint32_t code = 0; code <= format.max_finite; ++code) {
            const double value = value_of(format, code);
            ASSERT_EQ(encode(format.dtype, value), code);
            ASSERT_EQ(encode(format.dtype, -value), code | sign);
            ASSERT_EQ(encode(format.dtype, float(value)), code);
            if (code == format.max_finite) continue;
            const double midpoint = (value + value_of(format, code + 1)) / 2;
            const std::uint32_t even = code % 2 == 0 ? code : code + 1;
            ASSERT_EQ(encode(format.dtype, midpoint), even) << dtype_info(format.dtype).name << " " << code;
            ASSERT_EQ(encode(format.dtype, -midpoint), even | sign);
            ASSERT_EQ(encode(format.dtype, std::nextafter(midpoint, 0.0)), code);
            ASSERT_EQ(encode(format.dtype, std::nextafter(midpoint, infinite)), code + 1);
        }
    }
}

TEST(Dtype, OverflowsWhereRoundingLeavesTheRange) {
    struct Row {
        Dtype dtype;
        double value;
        std::uint32_t to_infinity;
        std::uint32_t saturated;
    };
    const Row rows[] = {
        {Dtype::f16, 65519.99, 0x7bff, 0x7bff},
        {Dtype::f16, 65520, 0x7c00, 0x7bff},
        {Dtype::f16, -1e300, 0xfc00, 0xfbff},
        {Dtype::f16, infinite, 0x7c00, 0x7bff},
        {Dtype::bf16, 0x1.fefp127, 0x7f7f, 0x7f7f},
        {Dtype::bf16, 0x1.ffp127, 0x7f80, 0x7f7f},
        {Dtype::e4m3, 464, 0x7e, 0x7e},
        {Dtype::e4m3, 464.001, 0x7f, 0x7e},
        {Dtype::e4m3, -1e9, 0xff, 0xfe},
        {Dtype::e4m3, -infinite, 0xff, 0xfe},
        {Dtype::e5m2, 61439.99, 0x7b, 0x7b},
        {Dtype::e5m2, 61440, 0x7c, 0x7b},
        {Dtype::e5m2, -infinite, 0xfc, 0xfb},
        {Dtype::f32, 0x1.ffffffp127, 0x7f800000, 0x7f7fffff},
        {Dtype::f32, infinite, 0x7f800000, 0x7f7fffff},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(encode(row.dtype, row.value), row.to_infinity) << row.value;
        EXPECT_EQ(encode(row.dtype, row.value, Overflow::saturate), row.saturated) << row.value;
    }
    EXPECT_EQ(encode(Dtype::f32, float(infinite)), 0x7f800000u);
    EXPECT_EQ(encode(Dtype::f32, float(-infinite), Overflow::saturate), 0xff7fffffu);
}

TEST(Dtype, NanIsCanonical) {
    for (const double nan : {std::nan(""), -std::nan(""), std::nan("12345")}) {
        EXPECT_EQ(encode(Dtype::f16, nan), 0x7fffu);
        EXPECT_EQ(encode(Dtype::bf16, nan, Overflow::saturate), 0x7fffu);
        EXPECT_EQ(encode(Dtype::e4m3, nan, Overflow::saturate), 0x7fu);
        EXPECT_EQ(encode(Dtype::e5m2, float(nan)), 0x7fu);
        EXPECT_EQ(encode(Dtype::f32, nan), 0x7fffffffu);
    }
    EXPECT_EQ(encode(Dtype::f32, std::bit_cast<float>(0xffc12345u)), 0xffc12345u);
}

TEST(Dtype, RoundsDoubleOnlyOnce) {
    // float32 would round this to the tie 1 + 2^-11, and f16 that to the even 1.
    const double above_tie = 1 + 0x1p-11 + 0x1p-40;
    EXPECT_EQ(encode(Dtype::f16, above_tie), 0x3c01u);
    EXPECT_EQ(encode(Dtype::f16, float(above_tie)), 0x3c00u);
    const double below_tie = 1 + 0x3p-8 - 0x1p-40;
    EXPECT_EQ(encode(Dtype::bf16, below_tie), 0x3f81u);
    EXPECT_EQ(encode(Dtype::bf16, float(below_tie)), 0x3f82u);
}

TEST(Dtype, EncodesFloatSubnormalsAndZeros) {
    EXPECT_EQ(encode(Dtype::f32, 0x1p-149), 1u);
    EXPECT_EQ(encode(Dtype::f32, 0x1p-150), 0u);
    EXPECT_EQ(encode(Dtype::f32, 0x1.8p-149), 2u);
    EXPECT_EQ(encode(Dtype::f32, -0x1.000001p-150), 0x80000001u);
    EXPECT_EQ(encode(Dtype::f32, 0x1.fffffep-127), 0x00800000u);
    EXPECT_EQ(encode(Dtype::f16, -0.0), 0x8000u);
    EXPECT_EQ(encode(Dtype::e5m2, std::numeric_limits<double>::denorm_min()), 0u);
    EXPECT_EQ(encode(Dtype::bf16, -std::numeric_limits<double>::denorm_min()), 0x8000u);
}

TEST(Dtype, UlpDistanceCountsNumbersInBetween) {
    EXPECT_EQ(ulp_distance(Dtype::f16, 1.0, 1.0), 0u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 1.0, 1.0 + 0x1p-10), 1u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 1.0, 1.0 + 0x1p-12), 0u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 1.0, 1.0 - 0x1p-11), 1u);
    EXPECT_EQ(ulp_distance(Dtype::bf16, 1.0, 2.0), 128u);
    EXPECT_EQ(ulp_distance(Dtype::f32, 1.0, 2.0), std::uint64_t(1) << 23);
    EXPECT_EQ(ulp_distance(Dtype::f16, 0.0, -0.0), 0u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 0x1p-24, -0x1p-24), 2u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 0.0, -0x1p-24), 1u);
    EXPECT_EQ(ulp_distance(Dtype::f16, 65504, -65504), 2u * 0x7bff);
    EXPECT_EQ(ulp_distance(Dtype::f32, std::numeric_limits<float>::max(), -std::numeric_limits<float>::max()),
              2 * std::uint64_t(0x7f7fffff));
}

TEST(Dtype, UlpDistanceOfNonFinitesIsLargest) {
    EXPECT_EQ(ulp_distance(Dtype::f16, infinite, infinite), 0u);
    EXPECT_EQ(ulp_distance(Dtype::f16, infinite, 1e6), 0u);
    EXPECT_EQ(ulp_distance(Dtype::f16, infinite, 65504), incomparable);
    EXPECT_EQ(ulp_distance(Dtype::f16, infinite, -infinite), incomparable);
    EXPECT_EQ(ulp_distance(Dtype::f32, std::nan(""), std::nan("")), incomparable);
    EXPECT_EQ(ulp_distance(Dtype::bf16, 0.0, std::nan("")), incomparable);
    EXPECT_EQ(ulp_distance(Dtype::e4m3, 1000, 1000), incomparable);
}

}  // namespace
}  // namespace tilescope
