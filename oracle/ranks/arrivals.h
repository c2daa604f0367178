#pragma once

#include <string>

#include "oracle/judge/tally.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// What a rank computed a step from, held against what the owner of each row has of it.
struct Arrival {
    Input input = Input::q;
    StageTally tally;  ///< of stages q, k and v, bit by bit; rows that nobody owns are not compared
    std::int64_t rows_not_owned = 0;
    // Of one that differs.
    std::string cause;  ///< its name; empty: none explains it
    std::string says;   ///< which rows it holds in place of the right ones
};

/// q, k or v of a step. Errors: Error for a damaged file.
Arrival judge_arrival(const RunOfRanks& run, const Recording& step, Input input);

}  // namespace tilescope
