#include "oracle/identify/index_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tilescope {

namespace {

using Form = IndexPart::Form;

/// Whole numbers in an index are rarely larger.
constexpr std::int64_t most_number = 64;
constexpr std::int64_t most_moved = 32;
constexpr std::int64_t most_beyond = 8;

/// The changes of one number alone.
void add_own_forms(std::uint8_t name, std::int64_t length, std::vector<IndexPart>& parts) {
    const auto add = [&](Form form, std::int64_t n = 0, std::int64_t k = 0) {
        parts.push_back({form, name, 0, n, k});
    };
    for (std::int64_t n = 1; n <= most_moved; ++n)
        for (const std::int64_t by : {n, -n}) add(Form::plus, by);
    add(Form::zero);
    if (!std::has_single_bit(std::uint64_t(length))) add(Form::reversed, length);
    for (const std::int64_t n : {2, 3, 4}) add(Form::times, n);
    const auto most = std::min(std::int64_t(std::bit_ceil(std::uint64_t(length))), most_number);
    // Those that leave a short range lead to other heads and batch entries.
    for (std::int64_t n = most + 1; n <= most_beyond; ++n) {
        add(Form::exclusive, n);
        add(Form::reversed, n);
    }
    for (std::int64_t n = 1; n <= most; ++n) {
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

/// The number with bits of another one, as in a swizzle, and with multiples of it.
void add_mixed_forms(std::uint8_t name, std::uint8_t other, std::vector<IndexPart>& parts) {
    for (const std::int64_t n : {2, 4, 8})
        for (const std::int64_t k : {1, 2, 4, 8, 16}) parts.push_back({Form::swizzled, name, other, n, k});
    for (const std::int64_t n : {2, 4, 8, 15}) parts.push_back({Form::masked, name, other, n});
    for (const std::int64_t k : {1, -1, 2, -2, 4, -4, 8, -8})
        parts.push_back({Form::plus_other, name, other, 0, k});
}

std::int64_t with_exchanged_bits(std::int64_t x, std::int64_t low, std::int64_t high) {
    const std::int64_t differ = (x >> low ^ x >> high) & 1;
    return x ^ (differ << low | differ << high);
}

std::string plus_number(std::int64_t n) {
    return n == 0 ? "" : fmt::format(" {} {}", n < 0 ? '-' : '+', n < 0 ? -n : n);
}

}  // namespace

std::int64_t IndexPart::changed(IndexNumbers numbers) const {
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
        case Form::plus_other:
            return x + k * numbers[other];
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
            return std::string(x) + plus_number(n);
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
            return fmt::format("{0} / {1} * {1} + {2} * {0} % {1}", x, n, k);
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
        case Form::plus_other:
            return fmt::format("{} {} {}{}", x, k < 0 ? '-' : '+', names[other],
                               std::abs(k) == 1 ? "" : fmt::format(" * {}", std::abs(k)));
    }
    return std::string(x);
}

int IndexPart::parameters() const {
    // Any number may be added to another one: which and how often are two.
    const bool has_two = form == Form::permuted || form == Form::exchanged_bits || form == Form::plus_other ||
                         (form == Form::swizzled && k != 1);
    if (form == Form::same || form == Form::zero) return 0;
    return has_two ? 2 : 1;
}

bool IndexPart::takes(std::size_t number) const {
    return (form != Form::zero && name == number) || (is_mixed() && other == number);
}

bool IndexPart::is_mixed() const {
    return form == Form::swizzled || form == Form::masked || form == Form::plus_other;
}

bool IndexPart::is_operation() const {
    switch (form) {
        case Form::same:
        case Form::zero:
        case Form::down_to_zero:
        case Form::at_most:
        case Form::at_least:
            return false;
        default:
            return true;
    }
}

std::vector<IndexPart> other_index_parts(std::uint8_t name, std::span<const std::int64_t> lengths) {
    std::vector<IndexPart> parts;
    add_own_forms(name, lengths[name], parts);
    for (std::uint8_t other = 0; other < lengths.size(); ++other) {
        if (other == name || lengths[other] < 2) continue;
        parts.push_back({Form::same, other});
        add_mixed_forms(name, other, parts);
    }
    return parts;
}

}  // namespace tilescope
