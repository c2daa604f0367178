#pragma once

#include "dump/recording.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// Whether every row of the input that the problem reads is owned by a rank that was recorded.
bool are_owned(const RunOfRanks& run, const Problem& problem, Input input);

/// Rows of an input as the ranks have them that own them: `count` of them from row `row` of the problem on. Every one of them
/// is owned. Errors: Error for a damaged file.
void read_owned_rows(const RunOfRanks& run, const Problem& problem, Input input, std::int64_t batch,
                     std::int64_t head, std::int64_t row, std::int64_t count, Span<float> out);

}  // namespace tilescope
