#pragma once

// What the JSON reports of tile-run have in common.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "kernels/run/request.h"

namespace tilescope {

/// Verdict, kernel, configuration, fault and command.
nlohmann::ordered_json request_json(const RunRequest& request, std::string_view verdict);

/// As it is printed.
std::string lines_of(const nlohmann::ordered_json& json);

}  // namespace tilescope
