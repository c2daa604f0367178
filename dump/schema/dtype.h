#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "dump/schema/span.h"

namespace tilescope {

/// Element types that kernels hold. fp8 types are the OCP ones (e4m3 has no infinity). e2m1 and ue8m0, a power of two, are
/// those of block-scaled formats, and no types of attention's stages. A code of e2m1 is the lower half of a byte.
/// Source: OCP Microscaling Formats (MX) Specification v1.0.
enum class Dtype : std::uint8_t { f32, f16, bf16, e4m3, e5m2, e2m1, ue8m0 };

/// What an encoder does with a value that rounds beyond the largest finite one, infinities included (as
/// satfinite does on the GPU). e2m1 has neither infinity nor NaN, and always saturates.
enum class Overflow : std::uint8_t { to_infinity, saturate };

struct DtypeInfo {
    Dtype dtype;
    std::string_view name;
    int bytes;
    int bits;              ///< of a code
    int significand_bits;  ///< with the implicit one: 24, 11, 8, 4, 3, 2, 1
    int min_exponent;      ///< exponent of the smallest normal number: -126, -14, -126, -6, -14, 0, -127
    bool has_infinity;     ///< false: beyond max_finite comes NaN
    bool has_nan;
    float max_finite;
};

const DtypeInfo& dtype_info(Dtype dtype);
std::optional<Dtype> dtype_from_name(std::string_view name);
Span<const DtypeInfo> all_dtypes();
/// Those that operands and stages of attention have.
Span<const DtypeInfo> attention_dtypes();
/// The same but float32.
Span<const DtypeInfo> narrow_dtypes();

/// The number that `bits` encode; bits above the dtype's width are ignored.
/// Types: any Dtype to float32.
/// Max error: 0.
/// Valid range: every code; NaN keeps its sign and the leading bits of its payload.
float decode(Dtype dtype, std::uint32_t bits);

/// decode() of each element of `bits`, little-endian and packed; `bits` holds out.size() elements.
/// Types, max error and valid range are those of decode().
void decode_array(Dtype dtype, Span<const std::byte> bits, Span<float> out);

/// `value` rounded to nearest, ties to even; in ue8m0 its magnitude, rounded up, as cvt.rp does. Bits above the dtype's
/// width are zero.
/// Types: float32 to any Dtype.
/// Max error: half an ulp of the dtype; 0 in f32; one ulp in ue8m0.
/// Valid range: every value. Beyond max_finite `overflow` says what comes; e4m3 and ue8m0 have no infinity, and NaN in
/// its place. NaN becomes that of the CUDA headers (0x7fff in f16 and bf16, 0x7f in fp8, 0xff in ue8m0, 6 in e2m1), and
/// stays as it is in f32. 0 becomes 2^-127 in ue8m0.
std::uint32_t encode(Dtype dtype, float value, Overflow overflow = Overflow::to_infinity);

/// The same, straight from float64: rounded once, not to float32 first.
/// Types: float64 to any Dtype.
/// Max error: half an ulp of the dtype.
/// Valid range: as above, but NaN becomes 0x7fffffff in f32.
std::uint32_t encode(Dtype dtype, double value, Overflow overflow = Overflow::to_infinity);

/// What each value of a byte stands for, by its bits as an unsigned number.
struct ByteCodes {
    std::array<float, 256> numbers = {};
};

/// Codes of one byte, unsigned or signed, of which each stands for number(code).
template <class Number>
ByteCodes byte_codes(const Number& number, bool is_signed) {
    ByteCodes codes;
    for (int bits = 0; bits < 256; ++bits) {
        const int code = is_signed && bits > 127 ? bits - 256 : bits;
        codes.numbers[static_cast<std::size_t>(bits)] = static_cast<float>(number(code));
    }
    return codes;
}

/// What codes stand for, rounded to `dtype`: `bits` holds codes.size() elements of it, little-endian and packed.
/// Types: any Dtype.
/// Max error: half an ulp of the dtype.
/// Valid range: every number; one beyond max_finite becomes what encode() makes of it.
void dequantize_array(const ByteCodes& how, Span<const std::byte> codes, Dtype dtype, Span<std::byte> bits);

/// Unit roundoff: half the distance from 1 to the next number, 2^-significand_bits; 1 in ue8m0, which is rounded up.
/// Types: any Dtype; the result is float64.
/// Max error: 0.
/// Valid range: bounds the relative error of encode() from 2^min_exponent up to max_finite.
double unit_roundoff(Dtype dtype);

/// Half the distance between subnormal numbers.
/// Types: any Dtype; the result is float64.
/// Max error: 0.
/// Valid range: bounds the absolute error of encode() below 2^min_exponent.
double half_quantum(Dtype dtype);

/// Steps from one representable value to the next between `a` and `b`, both first rounded to `dtype`; 0 where
/// they round to the same value, the two zeros included.
/// Types: float64, rounded to any Dtype.
/// Max error: 0 after the rounding.
/// Valid range: finite values; an infinity against anything but itself, and NaN (to which e4m3 overflows)
/// against anything, give the largest uint64.
std::uint64_t ulp_distance(Dtype dtype, double a, double b);

}  // namespace tilescope
