#include "dump/schema/dropout.h"

#include <algorithm>
#include <charconv>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

std::string in_lower_case(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    return lower;
}

}  // namespace

bool names_dropout(std::string_view name) {
    return in_lower_case(name).find("dropout") != std::string::npos;
}

bool is_no_dropout(std::string_view value) {
    const std::string text = in_lower_case(value);
    double number = 1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_zero = error == std::errc() && end == text.data() + text.size() && number == 0;
    return is_zero || text.empty() || text == "false" || text == "none";
}

void refuse_dropout(std::string_view name, const std::string& where) {
    throw Error("names dropout (" + std::string(name) +
                    "), which is not supported: the kernel's random numbers are not known",
                where, "record the kernel with a dropout of 0, as it is where nothing is trained");
}

}  // namespace tilescope
