#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tilescope {

/// A number that stands where another one should, and its text: "row ^ 4".
struct IndexForm {
    std::string text;
    std::function<std::int64_t(std::int64_t)> of;
    int numbers = 0;  ///< in the text
};

/// What somebody may have written in place of a number `name` below `extent`, the simplest first. The results may lie
/// beyond the extent. Forms that leave every number as it is are left out.
std::vector<IndexForm> index_forms(const std::string& name, std::int64_t extent);

}  // namespace tilescope
