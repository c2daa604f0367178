#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope {

/// Names of the numbers that an index may be computed from, and the numbers.
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
        permuted,        ///< x / n * n + k * x % n
        exchanged_bits,  ///< bits n and k of x
        at_most,         ///< min(x, n)
        at_least,        ///< max(x, n)
        swizzled,        ///< x ^ other % n * k
        masked,          ///< x ^ (other & n)
        plus_other       ///< x + k * other, as where a stride is k more
    };
    Form form = Form::same;
    std::uint8_t name = 0;
    std::uint8_t other = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;

    std::int64_t of(IndexNumbers numbers) const {
        return form == Form::same ? numbers[name] : changed(numbers);
    }
    std::string text(IndexNames names) const;
    /// Numbers in it.
    int parameters() const;
    bool takes(std::size_t number) const;
    /// Whether it is made of another number, too.
    bool is_mixed() const;
    /// Whether its text is an operation of its own, which stands in parentheses in another one.
    bool is_operation() const;

 private:
    std::int64_t changed(IndexNumbers numbers) const;
};

/// What may stand in the place of a number of an index: the number changed, mixed with another one, or another one.
/// `lengths`: of all numbers, one more than the greatest that each can be. Another number that is always 0 is left out.
std::vector<IndexPart> other_index_parts(std::uint8_t name, std::span<const std::int64_t> lengths);

}  // namespace tilescope
