#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

namespace tilescope {

/// As CLI::Range, which lets NaN pass: no comparison with it fails.
inline CLI::Validator number_range(double least, double most) {
    return CLI::Validator(
        [=](std::string& text) {
            double value = 0;
            const bool inside = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
            return inside ? "" : fmt::format("{} is no number from {} to {}", text, least, most);
        },
        "");
}

/// As CLI::NonNegativeNumber, whose message holds every digit of the largest double.
inline CLI::Validator not_negative() {
    return CLI::Validator(
        [](std::string& text) {
            double value = 0;
            const bool fine = CLI::detail::lexical_cast(text, value) && value >= 0;
            return fine ? "" : fmt::format("{} is no number from 0 on", text);
        },
        "");
}

}  // namespace tilescope
