#pragma once

#include <cstdint>
#include <string_view>

namespace tilescope {

/// Bits that a description takes: 8 for each word, name or sign, as if there were 256 of them; 2 floor(log2(n + 1)) + 1
/// for a whole number n, its Elias gamma code; 32 for a number with a fraction or an exponent.
double description_bits(std::string_view text);

/// Bits that it takes to say which `chosen` of `all` are meant: log2 of the number of ways.
double choice_bits(std::int64_t chosen, std::int64_t all);

/// Bits of a list of `wrong` elements among `compared`: which they are, and 16 for the value of each.
double listing_bits(std::int64_t wrong, std::int64_t compared);

}  // namespace tilescope
