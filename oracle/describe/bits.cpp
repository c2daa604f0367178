#include "oracle/describe/bits.h"

#include <cctype>
#include <cmath>
#include <string>

namespace tilescope {

namespace {

bool is_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

double bits_of_number(const std::string& number) {
    if (number.find_first_of(".eE") != std::string::npos) return 32;
    return 2 * std::floor(std::log2(std::stod(number) + 1)) + 1;
}

/// Where the number that begins at `at` ends: digits, a fraction, an exponent.
std::size_t end_of_number(std::string_view text, std::size_t at) {
    const auto skip_digits = [&] {
        while (at < text.size() && is_digit(text[at])) ++at;
    };
    const auto digit_at = [&](std::size_t i) { return i < text.size() && is_digit(text[i]); };
    skip_digits();
    if (at < text.size() && text[at] == '.' && digit_at(at + 1)) {
        ++at;
        skip_digits();
    }
    if (at < text.size() && text[at] == 'e') {
        const bool is_signed = at + 1 < text.size() && (text[at + 1] == '-' || text[at + 1] == '+');
        if (digit_at(at + 1 + std::size_t(is_signed))) {
            at += 1 + std::size_t(is_signed);
            skip_digits();
        }
    }
    return at;
}

double log2_factorial(std::int64_t n) {
    return std::lgamma(double(n) + 1) / std::log(2.0);
}

}  // namespace

double description_bits(std::string_view text) {
    double bits = 0;
    for (std::size_t at = 0; at < text.size();) {
        if (std::isspace(static_cast<unsigned char>(text[at])) != 0) {
            ++at;
        } else if (is_digit(text[at])) {
            const std::size_t end = end_of_number(text, at);
            bits += bits_of_number(std::string(text.substr(at, end - at)));
            at = end;
        } else {
            bits += 8;
            do ++at;
            while (is_of_word(text[at - 1]) && at < text.size() && is_of_word(text[at]));
        }
    }
    return bits;
}

double choice_bits(std::int64_t chosen, std::int64_t all) {
    if (chosen <= 0 || chosen >= all) return 0;
    return log2_factorial(all) - log2_factorial(chosen) - log2_factorial(all - chosen);
}

double listing_bits(std::int64_t wrong, std::int64_t compared) {
    constexpr double value = 16;
    return choice_bits(wrong, compared) + value * double(wrong);
}

}  // namespace tilescope
