#include "oracle/program/element_operations.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "oracle/formula/vector_kernels.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

/// nullopt: a type whose numbers are none of a grid.
std::optional<FloatGrid> float_grid_of(Dtype dtype) {
    const DtypeInfo& info = dtype_info(dtype);
    if (dtype == Dtype::ue8m0) return std::nullopt;
    return FloatGrid{info.significand_bits, std::ldexp(1.0, info.min_exponent), double(info.max_finite)};
}

std::optional<ElementCode> element_code_of(Dtype dtype) {
    switch (dtype) {
        case Dtype::f32:
            return ElementCode::f32;
        case Dtype::f16:
            return ElementCode::f16;
        case Dtype::bf16:
            return ElementCode::bf16;
        default:
            return std::nullopt;
    }
}

}  // namespace

Numbers product_of(const Numbers& x, const Numbers& y) {
    return combined<2>(
        {&x, &y}, false,
        [](const auto& of, std::int64_t count, ElementResult to) {
            return element_kernels().multiplied(of[0], of[1], count, to);
        },
        [](const auto& of) { return in_range(product_of(of[0], of[1])); });
}

Numbers cast_of(Dtype dtype, const Numbers& x) {
    const std::optional<FloatGrid> grid = float_grid_of(dtype);
    return combined<1>(
        {&x}, x.is_exact(),
        [&](const auto& of, std::int64_t count, ElementResult to) {
            return dtype != Dtype::f32 && grid && element_kernels().cast(*grid, of[0], count, to);
        },
        [&](const auto& of) { return cast_to(dtype, of[0]); });
}

void decode(const ProgramInput& array, std::int64_t first, std::int64_t count, double* values) {
    const std::optional<ElementCode> code = element_code_of(array.dtype);
    const std::byte* const bits = array.bits.data() + first * dtype_info(array.dtype).bytes;
    if (code && element_kernels().decoded(*code, bits, count, values)) return;
    for (std::int64_t i = 0; i < count; ++i) values[i] = element_of(array, first + i);
}

void mark_written(const double* values, std::int64_t count, char* known) {
    static const double unwritten = double(std::bit_cast<float>(unwritten_word));
    std::fill_n(known, count, char(1));
    if (element_kernels().none_is(std::bit_cast<std::uint64_t>(unwritten), values, count)) return;
    for (std::int64_t i = 0; i < count; ++i) known[i] = nobody_wrote(values[i]) ? 0 : 1;
}

}  // namespace tilescope
