#include "dump/schema/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>

namespace tilescope {

namespace {

/// A row for each dtype, in the order of the enumeration.
constexpr DtypeInfo dtypes[] = {
    {Dtype::f32, "f32", 4, 32, 24, -126, true, true, 0x1.fffffep127f},
    {Dtype::f16, "f16", 2, 16, 11, -14, true, true, 65504.0f},
    {Dtype::bf16, "bf16", 2, 16, 8, -126, true, true, 0x1.fep127f},
    {Dtype::e4m3, "e4m3", 1, 8, 4, -6, false, true, 448.0f},
    {Dtype::e5m2, "e5m2", 1, 8, 3, -14, true, true, 57344.0f},
    {Dtype::e2m1, "e2m1", 1, 4, 2, 0, false, false, 6.0f},
    {Dtype::ue8m0, "ue8m0", 1, 8, 1, -127, false, true, 0x1p127f},
};
constexpr std::size_t of_attention = 5;
constexpr std::size_t dtype_count = std::size(dtypes);

/// Sign, exponent and mantissa fields of a dtype, as bit patterns without the sign.
struct Layout {
    constexpr explicit Layout(const DtypeInfo& info)
        : width(info.bits),
          mantissa_bits(info.significand_bits - 1),
          min_exponent(info.min_exponent),
          nan(sign() - 1),
          // Without an infinity all exponents are of numbers, and the last code alone is NaN, or none.
          overflow(info.has_infinity ? nan >> mantissa_bits << mantissa_bits
                   : info.has_nan    ? nan
                                     : nan + 1),
          max_finite(overflow - 1),
          has_infinity(info.has_infinity) {}

    int width;
    int mantissa_bits;
    int min_exponent;
    std::uint32_t nan;
    std::uint32_t overflow;  ///< infinity, or NaN where there is none
    std::uint32_t max_finite;
    bool has_infinity;

    constexpr std::uint32_t sign() const { return std::uint32_t(1) << (width - 1); }
};

constexpr std::size_t index_of(Dtype dtype) {
    return static_cast<std::size_t>(dtype);
}

constexpr int float_mantissa_bits = 23;
constexpr int float_bias = 127;
constexpr int double_mantissa_bits = 52;
constexpr int double_bias = 1023;

/// 2^exponent for an exponent that is normal in float32.
constexpr float power_of_two(int exponent) {
    return std::bit_cast<float>(std::uint32_t(exponent + float_bias) << float_mantissa_bits);
}

/// Code of a power of two that is not below the magnitude. ue8m0 has no sign and no zero, and all codes but one are exponents.
constexpr std::uint32_t exponent_nan = 0xff;
std::uint32_t encode_exponent(double value, Overflow overflow) {
    if (std::isnan(value)) return exponent_nan;
    const std::uint32_t beyond = overflow == Overflow::saturate ? exponent_nan - 1 : exponent_nan;
    if (std::isinf(value)) return beyond;
    if (value == 0) return 0;
    int exponent = 0;
    const bool is_power = std::frexp(std::abs(value), &exponent) == 0.5;
    const int code = exponent - (is_power ? 1 : 0) + float_bias;
    return code < 0 ? 0 : code > 254 ? beyond : std::uint32_t(code);
}

float decode_exponent(std::uint32_t bits) {
    const std::uint32_t code = bits & exponent_nan;
    return code == exponent_nan ? std::numeric_limits<float>::quiet_NaN()
                                : std::ldexp(1.0f, int(code) - float_bias);
}

template <Dtype dtype>
float decode_as(std::uint32_t bits) {
    constexpr Layout layout(dtypes[index_of(dtype)]);
    if constexpr (dtype == Dtype::f32) {
        return std::bit_cast<float>(bits);
    } else if constexpr (dtype == Dtype::ue8m0) {
        return decode_exponent(bits);
    } else if constexpr (dtype == Dtype::bf16) {
        return std::bit_cast<float>(bits << 16);
    } else {
        constexpr int widening = float_mantissa_bits - layout.mantissa_bits;
        constexpr std::uint32_t implicit_one = std::uint32_t(1) << layout.mantissa_bits;
        const std::uint32_t sign = (bits & layout.sign()) << (32 - layout.width);
        const std::uint32_t code = bits & (layout.sign() - 1);
        if (code > layout.max_finite) {
            const std::uint32_t payload = layout.has_infinity ? code & (implicit_one - 1) : implicit_one >> 1;
            return std::bit_cast<float>(sign | 0x7f800000u | payload << widening);
        }
        if (code < implicit_one) {
            const float magnitude = float(code) * power_of_two(layout.min_exponent - layout.mantissa_bits);
            return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
        }
        constexpr std::uint32_t rebias = std::uint32_t(layout.min_exponent - 1 + float_bias)
                                         << float_mantissa_bits;
        return std::bit_cast<float>(sign | ((code << widening) + rebias));
    }
}

template <Dtype dtype>
void decode_array_as(Span<const std::byte> bits, Span<float> out) {
    constexpr std::size_t bytes = std::size_t(dtypes[index_of(dtype)].bytes);
    using Storage = std::conditional_t<bytes == 4, std::uint32_t,
                                       std::conditional_t<bytes == 2, std::uint16_t, std::uint8_t>>;
    for (std::size_t i = 0; i < out.size(); ++i) {
        Storage element;
        std::memcpy(&element, bits.data() + i * bytes, bytes);
        out[i] = decode_as<dtype>(element);
    }
}

struct Decoder {
    float (*decode)(std::uint32_t bits);
    void (*decode_array)(Span<const std::byte> bits, Span<float> out);
};

template <std::size_t... i>
constexpr std::array<Decoder, dtype_count> decoders_of(std::index_sequence<i...>) {
    return {{{decode_as<dtypes[i].dtype>, decode_array_as<dtypes[i].dtype>}...}};
}

constexpr std::array<Decoder, dtype_count> decoders = decoders_of(std::make_index_sequence<dtype_count>());

/// The code of a finite magnitude, rounded to nearest even as if the exponent range had no upper end.
/// `magnitude` is the float64 pattern without its sign.
std::uint64_t round_magnitude(const Layout& layout, std::uint64_t magnitude) {
    constexpr std::uint64_t implicit_one = std::uint64_t(1) << double_mantissa_bits;
    const int exponent = int(magnitude >> double_mantissa_bits) - double_bias;
    const bool normal = exponent >= layout.min_exponent;
    // Subnormal float64 numbers lack the implicit one, but round to zero in every dtype either way.
    const std::uint64_t significand = (magnitude & (implicit_one - 1)) | implicit_one;
    const int narrowing = double_mantissa_bits - layout.mantissa_bits;
    const int shift = normal ? narrowing : narrowing + layout.min_exponent - exponent;
    if (shift > double_mantissa_bits + 1) return 0;

    const std::uint64_t kept = significand >> shift;
    const std::uint64_t rest = significand & ((std::uint64_t(1) << shift) - 1);
    const std::uint64_t half = std::uint64_t(1) << (shift - 1);
    const bool up = rest > half || (rest == half && (kept & 1) != 0);
    // The implicit one of a normal number adds 1 to the exponent field, and a carry out of the mantissa
    // another.
    const std::uint64_t exponent_field = normal ? std::uint64_t(exponent - layout.min_exponent) : 0;
    return (exponent_field << layout.mantissa_bits) + kept + (up ? 1 : 0);
}

}  // namespace

const DtypeInfo& dtype_info(Dtype dtype) {
    return dtypes[index_of(dtype)];
}

std::optional<Dtype> dtype_from_name(std::string_view name) {
    for (const DtypeInfo& info : dtypes) {
        if (info.name == name) return info.dtype;
    }
    return std::nullopt;
}

Span<const DtypeInfo> all_dtypes() {
    return dtypes;
}

Span<const DtypeInfo> attention_dtypes() {
    return std::span(dtypes).first(of_attention);
}

Span<const DtypeInfo> narrow_dtypes() {
    static_assert(dtypes[0].dtype == Dtype::f32);
    return std::span(dtypes).subspan(1, of_attention - 1);
}

float decode(Dtype dtype, std::uint32_t bits) {
    return decoders[index_of(dtype)].decode(bits);
}

void decode_array(Dtype dtype, Span<const std::byte> bits, Span<float> out) {
    decoders[index_of(dtype)].decode_array(bits, out);
}

std::uint32_t encode(Dtype dtype, float value, Overflow overflow) {
    if (dtype == Dtype::f32 && (overflow == Overflow::to_infinity || !std::isinf(value))) {
        return std::bit_cast<std::uint32_t>(value);
    }
    return encode(dtype, double(value), overflow);
}

std::uint32_t encode(Dtype dtype, double value, Overflow overflow) {
    if (dtype == Dtype::ue8m0) return encode_exponent(value, overflow);
    const Layout layout(dtype_info(dtype));
    constexpr std::uint64_t infinity = std::bit_cast<std::uint64_t>(std::numeric_limits<double>::infinity());
    const std::uint64_t bits = std::bit_cast<std::uint64_t>(value);
    const std::uint64_t magnitude = bits & ~(std::uint64_t(1) << 63);
    const std::uint32_t sign = magnitude == bits ? 0 : layout.sign();
    if (magnitude > infinity) return layout.nan;  // of a type that has none its largest number

    const std::uint64_t code = round_magnitude(layout, magnitude);
    if (code <= layout.max_finite) return sign | std::uint32_t(code);
    const bool saturates = overflow == Overflow::saturate || layout.overflow > layout.nan;
    return sign | (saturates ? layout.max_finite : layout.overflow);
}

void dequantize_array(const ByteCodes& how, Span<const std::byte> codes, Dtype dtype, Span<std::byte> bits) {
    std::array<std::uint32_t, 256> table;
    std::ranges::transform(how.numbers, table.begin(), [&](float number) { return encode(dtype, number); });
    const auto bytes = std::size_t(dtype_info(dtype).bytes);
    for (std::size_t i = 0; i < codes.size(); ++i) {
        std::memcpy(bits.data() + i * bytes, &table[std::to_integer<std::size_t>(codes[i])], bytes);
    }
}

double unit_roundoff(Dtype dtype) {
    return dtype == Dtype::ue8m0 ? 1.0 : std::ldexp(1.0, -dtype_info(dtype).significand_bits);
}

double half_quantum(Dtype dtype) {
    const DtypeInfo& info = dtype_info(dtype);
    return std::ldexp(1.0, info.min_exponent - info.significand_bits);
}

std::uint64_t ulp_distance(Dtype dtype, double a, double b) {
    constexpr std::uint64_t incomparable = std::numeric_limits<std::uint64_t>::max();
    if (dtype == Dtype::ue8m0) {
        const std::uint32_t codes[] = {encode(dtype, a), encode(dtype, b)};
        if (codes[0] == exponent_nan || codes[1] == exponent_nan) return incomparable;
        return codes[0] > codes[1] ? codes[0] - codes[1] : codes[1] - codes[0];
    }
    const Layout layout(dtype_info(dtype));
    const std::uint32_t code_a = encode(dtype, a);
    const std::uint32_t code_b = encode(dtype, b);
    const std::uint32_t magnitude_a = code_a & (layout.sign() - 1);
    const std::uint32_t magnitude_b = code_b & (layout.sign() - 1);
    const std::uint32_t largest = std::max(magnitude_a, magnitude_b);
    if (largest > layout.max_finite) {
        const bool same_infinity = code_a == code_b && layout.has_infinity && largest == layout.overflow;
        return same_infinity ? 0 : incomparable;
    }
    const bool same_sign = (code_a & layout.sign()) == (code_b & layout.sign());
    const std::uint64_t smallest = std::min(magnitude_a, magnitude_b);
    return same_sign ? largest - smallest : largest + smallest;
}

}  // namespace tilescope
