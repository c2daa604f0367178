#include "kernels/gate/driver_version.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

namespace tilescope {

std::string driver_version() {
    std::ifstream stream("/proc/driver/nvidia/version");
    std::string line;
    std::getline(stream, line);
    return driver_version_in(line);
}

std::string driver_version_in(std::string_view words) {
    std::istringstream stream{std::string(words)};
    for (std::string word; stream >> word;) {
        const bool is_version = word.find('.') != std::string::npos && std::ranges::all_of(word, [](char c) {
                                    return c == '.' || std::isdigit(static_cast<unsigned char>(c)) != 0;
                                });
        if (is_version) return word;
    }
    return "";
}

}  // namespace tilescope
