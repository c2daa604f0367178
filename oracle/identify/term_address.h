#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope {

/// Names of the numbers that an index may be computed from. The first two are those that a right index is made of.
using IndexNames = std::span<const std::string_view>;
using IndexNumbers = std::span<const std::int64_t>;

/// One of these numbers, changed as in an index of a kernel.
struct IndexPart {
    enum class Form : std::uint8_t {
        same,
        zero,
        plus,            ///< x + n
        down_to_zero,    ///< max(x - n, 0)
        times,           ///< x * n
        exclusive,       ///< x ^ n
        rest,            ///< x % n
        multiple,        ///< x / n * n
        quotient,        ///< x / n
        reversed,        ///< x / n * n + n - 1 - x % n
        permuted,        ///< x / n * n + x * k % n
        exchanged_bits,  ///< bits n and k of x
        at_most,         ///< min(x, n)
        at_least,        ///< max(x, n)
        swizzled,        ///< x ^ other % n * k
        masked           ///< x ^ (other & n)
    };
    Form form = Form::same;
    std::uint8_t name = 0;
    std::uint8_t other = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;

    std::int64_t of(IndexNumbers numbers) const;
    std::string text(IndexNames names) const;
    /// Numbers in it.
    int parameters() const;
    bool takes(std::size_t number) const;
};

/// outer * stride + inner: where in the memory of a tile the term of a sum is read.
struct TermAddress {
    IndexPart outer{IndexPart::Form::same, 0};
    IndexPart inner{IndexPart::Form::same, 1};
    std::int64_t stride = 0;         ///< 0: from a row of the tile to the next
    std::string_view stride_name{};  ///< what the stride is called, where it is no number
    std::int64_t padding = 0;        ///< elements between the rows of the tile

    /// `cols`: those of the tile.
    std::int64_t of(IndexNumbers numbers, std::int64_t cols) const {
        return outer.of(numbers) * (stride != 0 ? stride : cols + padding) + inner.of(numbers);
    }
    /// "[row ^ 12][col]", or "[41 * row + col]"; `cols`: those of the tile.
    std::string text(IndexNames names, std::int64_t cols) const;
    int parameters() const;
    bool takes(std::size_t number) const { return outer.takes(number) || inner.takes(number); }
    /// Whether it never leaves a row of the tile: then it does not matter what is between the rows. `lengths`: of the
    /// numbers.
    bool stays_in_rows(std::span<const std::int64_t> lengths) const;
};

/// A stride that an author may have taken for another.
struct NamedStride {
    std::string_view name;  ///< empty: a number
    std::int64_t value = 0;
};

/// Addresses that differ from the right one in one thing: one of its two numbers is changed, or another of the numbers
/// in its place, or they are in each other's place, or the stride is another one. `lengths`: of the
/// numbers, one more than the greatest that each can be.
std::vector<TermAddress> other_term_addresses(std::span<const std::int64_t> lengths,
                                              std::span<const NamedStride> strides);

}  // namespace tilescope
