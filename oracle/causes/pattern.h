#pragma once

#include <functional>
#include <set>
#include <string>

#include "oracle/causes/evidence.h"

namespace tilescope {

/// Which elements of the tiles that were seen a pattern holds.
using Holds = std::function<bool(const Observation&, Eigen::Index row, Eigen::Index col)>;

/// Whether the element can tell where a mistake is made: it is wrong, or a mistake would have changed it. A 0
/// or an infinity often stays what it is.
bool tells(const Observation& seen, Eigen::Index row, Eigen::Index col);

/// Share of the elements, or of whole tiles, that are wrong where the pattern says so and right elsewhere; 0
/// where the pattern leaves out more than 1 % of the wrong elements.
double agreement(const Evidence& evidence, const Holds& holds, bool of_tiles = false);

struct NumbersTold {
    std::string text;
    bool is_whole = true;  ///< it tells all of them
};

/// "3", "2-5", "0, 8, 16, 24" or, of more, "0, 2, 4, 6, 8, 10, ...".
NumbersTold range_of(const std::set<std::int64_t>& numbers);

}  // namespace tilescope
