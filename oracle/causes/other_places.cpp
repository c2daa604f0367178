#include "oracle/causes/other_places.h"

#include <fmt/format.h>

namespace tilescope {

std::vector<OtherPlace> other_places(const std::string& name, std::int64_t length) {
    std::vector<OtherPlace> places = {{name + " 0", [](Eigen::Index) { return Eigen::Index(0); }}};
    for (std::int64_t n = 1; n < length; n *= 2) {
        places.push_back({fmt::format("{} ^ {}", name, n), [=](Eigen::Index i) { return i ^ n; }});
        places.push_back({fmt::format("{} + {}", name, n), [=](Eigen::Index i) { return i + n; }});
        places.push_back({fmt::format("{} - {}", name, n), [=](Eigen::Index i) { return i - n; }});
        if (n == 1) continue;
        places.push_back(
            {fmt::format("{0} / {1} * {1}", name, n), [=](Eigen::Index i) { return i / n * n; }});
        places.push_back({fmt::format("{} % {}", name, n), [=](Eigen::Index i) { return i % n; }});
    }
    return places;
}

}  // namespace tilescope
