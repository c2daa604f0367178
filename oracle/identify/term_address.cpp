#include "oracle/identify/term_address.h"

#include <fmt/format.h>

#include <algorithm>

namespace tilescope {

namespace {

using Form = IndexPart::Form;

/// Whole numbers in an index are rarely larger.
constexpr std::int64_t most_number = 64;
constexpr std::int64_t most_moved = 32;

/// The changes of one number alone.
void add_own_forms(std::uint8_t name, std::int64_t length, std::vector<IndexPart>& parts) {
    const auto add = [&](Form form, std::int64_t n = 0, std::int64_t k = 0) {
        parts.push_back({form, name, 0, n, k});
    };
    for (std::int64_t n = 1; n <= most_moved; ++n)
        for (const std::int64_t by : {n, -n}) add(Form::plus, by);
    add(Form::zero);
    add(Form::reversed, length);
    for (const std::int64_t n : {2, 3, 4}) add(Form::times, n);
    for (std::int64_t n = 1; n < std::min(length, most_number); ++n) {
        add(Form::exclusive, n);
        add(Form::at_most, n);
        add(Form::at_least, n);
        add(Form::down_to_zero, n);
        if (n == 1) continue;
        add(Form::rest, n);
        add(Form::multiple, n);
        add(Form::quotient, n);
        add(Form::reversed, n);
        for (std::int64_t odd = 3; odd < n && (n & (n - 1)) == 0 && n <= 32; odd += 2)
            add(Form::permuted, n, odd);
    }
    for (std::int64_t low = 0; low < 5; ++low)
        for (std::int64_t high = low + 1; high < 6; ++high) add(Form::exchanged_bits, low, high);
}

/// The number with bits of another one, as in a swizzle.
void add_mixed_forms(std::uint8_t name, std::uint8_t other, std::vector<IndexPart>& parts) {
    for (const std::int64_t n : {2, 4, 8})
        for (const std::int64_t k : {1, 2, 4, 8, 16}) parts.push_back({Form::swizzled, name, other, n, k});
    for (const std::int64_t n : {2, 4, 8, 15}) parts.push_back({Form::masked, name, other, n});
}

std::int64_t with_exchanged_bits(std::int64_t x, std::int64_t low, std::int64_t high) {
    const std::int64_t differ = (x >> low ^ x >> high) & 1;
    return x ^ (differ << low | differ << high);
}

std::string plus(std::int64_t n) {
    return n == 0 ? "" : fmt::format(" {} {}", n < 0 ? '-' : '+', n < 0 ? -n : n);
}

std::string in_parentheses(const std::string& text) {
    return text.find(' ') == std::string::npos || text.back() == ')' ? text : "(" + text + ")";
}

}  // namespace

std::int64_t IndexPart::of(IndexNumbers numbers) const {
    const std::int64_t x = numbers[name];
    switch (form) {
        case Form::same:
            return x;
        case Form::zero:
            return 0;
        case Form::plus:
            return x + n;
        case Form::down_to_zero:
            return std::max<std::int64_t>(x - n, 0);
        case Form::times:
            return x * n;
        case Form::exclusive:
            return x ^ n;
        case Form::rest:
            return x % n;
        case Form::multiple:
            return x / n * n;
        case Form::quotient:
            return x / n;
        case Form::reversed:
            return x / n * n + n - 1 - x % n;
        case Form::permuted:
            return x / n * n + x * k % n;
        case Form::exchanged_bits:
            return with_exchanged_bits(x, n, k);
        case Form::at_most:
            return std::min(x, n);
        case Form::at_least:
            return std::max(x, n);
        case Form::swizzled:
            return x ^ numbers[other] % n * k;
        case Form::masked:
            return x ^ (numbers[other] & n);
    }
    return x;
}

std::string IndexPart::text(IndexNames names) const {
    const std::string_view x = names[name];
    switch (form) {
        case Form::same:
            return std::string(x);
        case Form::zero:
            return "0";
        case Form::plus:
            return std::string(x) + plus(n);
        case Form::down_to_zero:
            return fmt::format("max({} - {}, 0)", x, n);
        case Form::times:
            return fmt::format("{} * {}", x, n);
        case Form::exclusive:
            return fmt::format("{} ^ {}", x, n);
        case Form::rest:
            return fmt::format("{} % {}", x, n);
        case Form::multiple:
            return fmt::format("{0} / {1} * {1}", x, n);
        case Form::quotient:
            return fmt::format("{} / {}", x, n);
        case Form::reversed:
            return fmt::format("{0} / {1} * {1} + {2} - {0} % {1}", x, n, n - 1);
        case Form::permuted:
            return fmt::format("{0} / {1} * {1} + {0} * {2} % {1}", x, n, k);
        case Form::exchanged_bits:
            return fmt::format("{} with bits {} and {} exchanged", x, n, k);
        case Form::at_most:
            return fmt::format("min({}, {})", x, n);
        case Form::at_least:
            return fmt::format("max({}, {})", x, n);
        case Form::swizzled:
            return fmt::format("{} ^ {} % {}", x, names[other], n) + (k == 1 ? "" : fmt::format(" * {}", k));
        case Form::masked:
            return fmt::format("{} ^ ({} & {})", x, names[other], n);
    }
    return std::string(x);
}

int IndexPart::parameters() const {
    const bool has_two =
        form == Form::permuted || form == Form::exchanged_bits || (form == Form::swizzled && k != 1);
    if (form == Form::same || form == Form::zero) return 0;
    return has_two ? 2 : 1;
}

bool IndexPart::takes(std::size_t number) const {
    const bool is_mixed = form == Form::swizzled || form == Form::masked;
    return (form != Form::zero && name == number) || (is_mixed && other == number);
}

std::string TermAddress::text(IndexNames names, std::int64_t cols) const {
    const std::string row = outer.text(names);
    const std::string col = inner.text(names);
    if (stride == 0 && padding == 0) return fmt::format("[{}][{}]", row, col);
    const std::int64_t ld = cols + padding;
    const std::string by = stride == 0           ? std::to_string(ld)
                           : stride_name.empty() ? std::to_string(stride)
                                                 : std::string(stride_name);
    std::string text = fmt::format("[{} * {} + {}]", by, in_parentheses(row), col);
    if (stride != 0 && padding != 0) text += fmt::format(" of rows of {}", ld);
    return text;
}

int TermAddress::parameters() const {
    return outer.parameters() + inner.parameters() + int(stride != 0 && stride_name.empty()) +
           int(padding != 0);
}

bool TermAddress::stays_in_rows(std::span<const std::int64_t> lengths) const {
    if (stride != 0) return false;
    std::vector<std::int64_t> numbers(lengths.size(), 0);
    const bool is_mixed = inner.form == Form::swizzled || inner.form == Form::masked;
    const std::int64_t others = is_mixed ? std::min<std::int64_t>(lengths[inner.other], 16) : 1;
    for (std::int64_t x = 0; x < lengths[inner.name]; ++x) {
        for (std::int64_t other = 0; other < others; ++other) {
            numbers[inner.name] = x;
            if (is_mixed) numbers[inner.other] = other;
            const std::int64_t at = inner.of(numbers);
            if (at < 0 || at >= lengths[1]) return false;
        }
    }
    return true;
}

std::vector<TermAddress> other_term_addresses(std::span<const std::int64_t> lengths,
                                              std::span<const NamedStride> strides) {
    std::vector<TermAddress> all;
    for (const std::uint8_t name : {std::uint8_t(0), std::uint8_t(1)}) {
        std::vector<IndexPart> parts;
        add_own_forms(name, lengths[name], parts);
        for (std::uint8_t other = 0; other < lengths.size(); ++other) {
            if (other == name || lengths[other] < 2) continue;
            parts.push_back({Form::same, other});
            add_mixed_forms(name, other, parts);
        }
        for (const IndexPart& part : parts) {
            TermAddress next;
            (name == 0 ? next.outer : next.inner) = part;
            all.push_back(next);
        }
    }
    TermAddress exchanged;
    std::swap(exchanged.outer, exchanged.inner);
    all.push_back(exchanged);
    for (const NamedStride& stride : strides) {
        for (TermAddress next : {TermAddress{}, exchanged}) {
            next.stride = stride.value;
            next.stride_name = stride.name;
            all.push_back(next);
        }
    }
    return all;
}

}  // namespace tilescope
