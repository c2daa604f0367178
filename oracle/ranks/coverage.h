#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// Keys that a rank's rows see and took never, or more than once, by what its steps say they hold.
struct CoverageFault {
    std::int64_t step = 0;       ///< the second that takes them; -1: none takes them
    std::int64_t first_row = 0;  ///< position of the first row that it is so of
    std::int64_t first_key = 0;  ///< positions
    std::int64_t last_key = 0;
    std::int64_t more = 0;    ///< keys beyond last_key that it is so of
    std::int64_t owner = -1;  ///< the rank that owns the first of them; -1: nobody
    std::string cause;
    std::string says;
};

/// The first of them; nullopt where every visible key is taken once. Keys that none takes count where the rank's outputs
/// were recorded, since later steps may not have been.
std::optional<CoverageFault> find_coverage_fault(const RunOfRanks& run, std::int64_t rank);

}  // namespace tilescope
