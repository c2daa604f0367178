#pragma once

#include <string>
#include <string_view>

namespace tilescope {

/// The version of NVIDIA's driver, such as 580.95.05; empty where it is not known.
std::string driver_version();

/// The same in the words of /proc/driver/nvidia/version.
std::string driver_version_in(std::string_view words);

}  // namespace tilescope
