#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tilescope {

/// Numbers one behind the other, and what each may be off by.
struct ElementSpan {
    const double* value = nullptr;
    const double* error = nullptr;
};

/// Where results of as many elements go.
struct ElementResult {
    double* value = nullptr;
    double* error = nullptr;
};

/// The floats of a type, as rounding to them takes it.
struct FloatGrid {
    int digits = 0;
    double least_normal = 0;
    double largest = 0;
};

/// A tile that matches, held against what was stored.
struct HeldElements {
    bool is_plain = false;  ///< all are numbers within their tolerances, which are finite, and were stored
    double largest_difference = 0;
    double budget_used = 0;
    double largest_tolerance = 0;
    double largest_expected = 0;
};

/// How 16-bit codes and float32 lie in memory.
enum class ElementCode : std::uint8_t { f32, f16, bf16 };

/// The operations on elements that formulas are mostly made of, compiled for one instruction set. Each computes what functions.h and
/// real.h say of ordinary numbers, and returns whether all elements were such: the others, as NaN, infinities and what is hardly
/// known, are computed by those.
/// Types: float64.
/// Max error: values as those differ by a few ulp of float64, bounds as those or larger by less than one in a thousand.
/// Valid range: what it returns true for.
struct ElementKernels {
    const char* instruction_set;

    bool (*added)(ElementSpan x, ElementSpan y, std::int64_t count, ElementResult result);
    bool (*multiplied)(ElementSpan x, ElementSpan y, std::int64_t count, ElementResult result);
    bool (*exponentials)(ElementSpan x, std::int64_t count, ElementResult result);
    /// exp(scale (x - y)), where compilers fuse products into the difference.
    bool (*exponentials_of_differences)(ElementSpan x, ElementSpan y, double scale, std::int64_t count,
                                        ElementResult result);
    bool (*chosen)(ElementSpan x, ElementSpan condition, ElementSpan otherwise, std::int64_t count,
                   ElementResult result);
    /// Rounded to nearest in that type.
    bool (*cast)(const FloatGrid& grid, ElementSpan x, std::int64_t count, ElementResult result);
    /// errors += |x| (errors of y) + (errors of x) (|y| and its errors): of the sum of x y along rows of y, each of `cols` elements.
    void (*add_errors_of_row)(ElementSpan x, ElementSpan y, std::int64_t rows, std::int64_t cols,
                              double* errors);
    /// Numbers in memory as float64.
    bool (*decoded)(ElementCode code, const std::byte* bits, std::int64_t count, double* value);
    /// Whether none of them has these bits.
    bool (*none_is)(std::uint64_t bits, const double* values, std::int64_t count);
    /// Whether all are within the range of float32, whatever they may be off by.
    bool (*in_range)(ElementSpan x, std::int64_t count);
    HeldElements (*held)(const double* got, ElementSpan expected, std::int64_t count);
};

/// The kernels for the best instruction set that this processor has.
const ElementKernels& element_kernels();

/// All that this processor can run, for tests.
std::span<const ElementKernels* const> runnable_element_kernels();

}  // namespace tilescope
