#include "oracle/judge/diagnosis.h"

#include <fmt/format.h>

#include <cmath>

namespace tilescope {

std::string title_of(const FoundCause& cause) {
    std::string text(cause.name);
    for (std::size_t i = 0; i < cause.parameters.size(); ++i)
        text +=
            fmt::format("{}{} {}", i == 0 ? " (" : ", ", cause.parameters[i].name, cause.parameters[i].value);
    return cause.parameters.empty() ? text : text + ")";
}

std::string percent_of(double share) {
    return fmt::format("{:.4g} %", std::floor(share * 1e4) / 100);
}

}  // namespace tilescope
