// Our conversions against those of the CUDA headers, which run on the host: no GPU is needed.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#if CUDART_VERSION >= 12080
#include <cuda_fp4.h>
#define TILESCOPE_BLOCK_SCALED
#endif
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "dump/schema/dtype.h"

namespace tilescope {
namespace {

std::uint32_t f16_bits(float value) {
    return static_cast<__half_raw>(__float2half_rn(value)).x;
}
std::uint32_t bf16_bits(float value) {
    return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(value)).x;
}
template <__nv_fp8_interpretation_t kind, __nv_saturation_t saturation>
std::uint32_t fp8_bits(float value) {
    return __nv_cvt_float_to_fp8(value, saturation, kind);
}
template <__nv_fp8_interpretation_t kind, __nv_saturation_t saturation>
std::uint32_t fp8_bits_of_double(double value) {
    return __nv_cvt_double_to_fp8(value, saturation, kind);
}

float f16_value(std::uint32_t bits) {
    __half_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return __half2float(__half(raw));
}
float bf16_value(std::uint32_t bits) {
    __nv_bfloat16_raw raw;
    raw.x = static_cast<unsigned short>(bits);
    return __bfloat162float(__nv_bfloat16(raw));
}
template <__nv_fp8_interpretation_t kind>
float fp8_value(std::uint32_t bits) {
    const __nv_fp8_storage_t storage = static_cast<__nv_fp8_storage_t>(bits);
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(storage, kind)));
}

#ifdef TILESCOPE_BLOCK_SCALED
std::uint32_t fp4_bits(float value) {
    return __nv_cvt_float_to_fp4(value, __NV_E2M1, cudaRoundNearest);
}
float fp4_value(std::uint32_t bits) {
    return __half2float(__half(__nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t(bits & 15), __NV_E2M1)));
}
template <__nv_saturation_t saturation>
std::uint32_t exponent_bits(float value) {
    return __nv_cvt_float_to_e8m0(value, saturation, cudaRoundPosInf);
}
float exponent_value(std::uint32_t bits) {
    return __bfloat162float(__nv_bfloat16(__nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t(bits))));
}
#endif

struct Conversion {
    Dtype dtype;
    Overflow overflow;
    std::uint32_t (*encode)(float);
    float (*decode)(std::uint32_t);
};
const Conversion conversions[] = {
    {Dtype::f16, Overflow::to_infinity, f16_bits, f16_value},
    {Dtype::bf16, Overflow::to_infinity, bf16_bits, bf16_value},
    {Dtype::e4m3, Overflow::to_infinity, fp8_bits<__NV_E4M3, __NV_NOSAT>, fp8_value<__NV_E4M3>},
    {Dtype::e4m3, Overflow::saturate, fp8_bits<__NV_E4M3, __NV_SATFINITE>, fp8_value<__NV_E4M3>},
    {Dtype::e5m2, Overflow::to_infinity, fp8_bits<__NV_E5M2, __NV_NOSAT>, fp8_value<__NV_E5M2>},
    {Dtype::e5m2, Overflow::saturate, fp8_bits<__NV_E5M2, __NV_SATFINITE>, fp8_value<__NV_E5M2>},
#ifdef TILESCOPE_BLOCK_SCALED
    {Dtype::e2m1, Overflow::to_infinity, fp4_bits, fp4_value},
    {Dtype::e2m1, Overflow::saturate, fp4_bits, fp4_value},
    {Dtype::ue8m0, Overflow::to_infinity, exponent_bits<__NV_NOSAT>, exponent_value},
    {Dtype::ue8m0, Overflow::saturate, exponent_bits<__NV_SATFINITE>, exponent_value},
#endif
};

testing::AssertionResult encodes_alike(const Conversion& conversion, float value) {
    const std::uint32_t ours = encode(conversion.dtype, value, conversion.overflow);
    const std::uint32_t theirs = conversion.encode(value);
    if (ours == theirs) return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << dtype_info(conversion.dtype).name << " of " << std::hexfloat << value << " (bits 0x" << std::hex
           << std::bit_cast<std::uint32_t>(value) << ") is 0x" << ours << ", CUDA has 0x" << theirs;
}

std::uint32_t code_count(Dtype dtype) {
    return std::uint32_t(1) << dtype_info(dtype).bits;
}

TEST(DtypeCudaHeaders, EveryCodeDecodesAlike) {
    for (const Conversion& conversion : conversions) {
        for (std::uint32_t code = 0; code < code_count(conversion.dtype); ++code) {
            const float ours = decode(conversion.dtype, code);
            const float theirs = conversion.decode(code);
            if (std::isnan(theirs)) {
                ASSERT_TRUE(std::isnan(ours)) << dtype_info(conversion.dtype).name << " " << code;
            } else {
                ASSERT_EQ(std::bit_cast<std::uint32_t>(ours), std::bit_cast<std::uint32_t>(theirs))
                    << dtype_info(conversion.dtype).name << " " << code;
            }
        }
    }
}

TEST(DtypeCudaHeaders, EveryNumberAndEveryTieEncodesAlike) {
    const float infinity = INFINITY;
    for (const Conversion& conversion : conversions) {
        for (std::uint32_t code = 0; code < code_count(conversion.dtype); ++code) {
            const float value = decode(conversion.dtype, code);
            ASSERT_TRUE(encodes_alike(conversion, value));
            const float next = decode(conversion.dtype, code + 1);
            if (!std::isfinite(value) || !std::isfinite(next)) continue;
            const float midpoint = float((double(value) + double(next)) / 2);
            ASSERT_TRUE(encodes_alike(conversion, midpoint));
            ASSERT_TRUE(encodes_alike(conversion, std::nextafter(midpoint, infinity)));
            ASSERT_TRUE(encodes_alike(conversion, std::nextafter(midpoint, -infinity)));
        }
    }
}

TEST(DtypeCudaHeaders, OverflowsAlike) {
    const float edges[] = {65504, 65519.99f, 65520,   65536,     0x1.fep127f, 0x1.fefffep127f, 0x1.ffp127f,
                           448,   463.9999f, 464,     464.0001f, 480,         57344,           61439.99f,
                           61440, 61440.01f, 3.4e38f, INFINITY,  NAN};
    for (const Conversion& conversion : conversions) {
        for (const float edge : edges) {
            EXPECT_TRUE(encodes_alike(conversion, edge));
            EXPECT_TRUE(encodes_alike(conversion, -edge));
        }
    }
}

TEST(DtypeCudaHeaders, RandomFloatsEncodeAlike) {
    constexpr std::uint32_t seed = 20240607;
    constexpr int count = 2'000'000;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> logarithm(-30, 18);
    for (int i = 0; i < count; ++i) {
        const float any_bits = std::bit_cast<float>(std::uint32_t(random()));
        const float in_range = std::exp2(logarithm(random)) * (i % 2 == 0 ? 1.0f : -1.0f);
        for (const Conversion& conversion : conversions) {
            ASSERT_TRUE(encodes_alike(conversion, any_bits));
            ASSERT_TRUE(encodes_alike(conversion, in_range));
        }
    }
}

TEST(DtypeCudaHeaders, RandomDoublesEncodeAlike) {
    constexpr std::uint32_t seed = 20240608;
    constexpr int count = 1'000'000;
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> logarithm(-30, 18);
    for (int i = 0; i < count; ++i) {
        const double value = std::exp2(logarithm(random)) * (i % 2 == 0 ? 1.0 : -1.0);
        ASSERT_EQ(encode(Dtype::f16, value), static_cast<__half_raw>(__double2half(value)).x) << value;
        ASSERT_EQ(encode(Dtype::bf16, value), static_cast<__nv_bfloat16_raw>(__double2bfloat16(value)).x)
            << value;
        ASSERT_EQ(encode(Dtype::e4m3, value), (fp8_bits_of_double<__NV_E4M3, __NV_NOSAT>(value))) << value;
        ASSERT_EQ(encode(Dtype::e5m2, value, Overflow::saturate),
                  (fp8_bits_of_double<__NV_E5M2, __NV_SATFINITE>(value)))
            << value;
    }
}

}  // namespace
}  // namespace tilescope
