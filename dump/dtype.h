#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tilescope {

/// Element types that attention kernels hold. fp8 types are the OCP ones (e4m3 has no infinity).
enum class Dtype : std::uint8_t { f32, f16, bf16, e4m3, e5m2 };

/// What an encoder does with a value that rounds beyond the largest finite one, infinities included (as
/// satfinite does on the GPU).
enum class Overflow : std::uint8_t { to_infinity, saturate };

struct DtypeInfo {
    Dtype dtype;
    std::string_view name;
    int bytes;
    int significand_bits;  ///< with the implicit one: 24, 11, 8, 4, 3
    int min_exponent;      ///< exponent of the smallest normal number: -126, -14, -126, -6, -14
    float max_finite;
};

const DtypeInfo& dtype_info(Dtype dtype);
std::optional<Dtype> dtype_from_name(std::string_view name);

/// The exact value of `bits` as float32; bits above the dtype's width are ignored. NaN keeps its sign and the
/// leading bits of its payload.
float decode(Dtype dtype, std::uint32_t bits);

/// decode() of each element of `bits`, little-endian and packed; `bits` holds out.size() elements.
void decode_array(Dtype dtype, std::span<const std::byte> bits, std::span<float> out);

/// `value` rounded to nearest, ties to even. Bits above the dtype's width are zero. NaN becomes the dtype's
/// canonical NaN of the CUDA headers (0x7fff for f16 and bf16, 0x7f for fp8); a float32 NaN stays as it is in
/// f32. e4m3 has no infinity: with Overflow::to_infinity its overflow becomes NaN.
std::uint32_t encode(Dtype dtype, float value, Overflow overflow = Overflow::to_infinity);

/// `value` rounded to nearest, ties to even, straight from float64 (no double rounding). NaN becomes
/// 0x7fffffff in f32.
std::uint32_t encode(Dtype dtype, double value, Overflow overflow = Overflow::to_infinity);

/// Unit roundoff: half the distance from 1 to the next number, 2^-significand_bits.
double unit_roundoff(Dtype dtype);

/// Half the distance between subnormal numbers: the absolute error of rounding near zero.
double half_quantum(Dtype dtype);

/// Number of representable values between `a` and `b`, both first rounded to `dtype`; 0 when both round to
/// the same value, the two zeros included. An infinity against anything but itself, and NaN (to which e4m3
/// overflows) against anything, gives the largest uint64.
std::uint64_t ulp_distance(Dtype dtype, double a, double b);

}  // namespace tilescope
