#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tilescope {

/// Where something is read that should be read at i, and its text: "row ^ 1".
struct OtherPlace {
    std::string text;
    std::function<Eigen::Index(Eigen::Index)> from;
};

/// Those that somebody may have meant among `length`, which may lie beyond them; not i itself.
std::vector<OtherPlace> other_places(const std::string& name, std::int64_t length);

}  // namespace tilescope
