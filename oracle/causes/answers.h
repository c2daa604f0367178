#pragma once

#include <optional>
#include <span>
#include <vector>

#include "oracle/causes/evidence.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

// What is known of each stage that diverges by itself: an answer is proved by a replay, or it is "unexplained".

/// m, l and acc go through the same recurrence, and the mask of scores hides what is behind the last key. A form has its name of how it was found: in two stages it is the same
/// mistake only with the same numbers.
bool is_same_mistake(const FoundCause& a, const FoundCause& b);

/// Earlier wrong stages with which computed instead of read the stage is within its budgets, however wide; empty: none.
/// Errors: Error for a damaged file.
std::vector<Stage> leave_open(const Evidence& evidence, const Report& report, int threads);

/// The answer where the stage is right with earlier wrong stages computed instead of read: the kernel went on with
/// other values than it dumped. Not where that is so only since the budgets of what is computed are wide. `evidence`: of
/// the stage, healthy. Errors: Error for a damaged file.
std::optional<StageAnswer> answer_from_dump(const Evidence& evidence, const Report& report,
                                            const Diagnosis& found);

/// Those of the first rank, and further ones, with which a kernel leaves the stage as it was dumped. Errors: Error
/// for a damaged file.
std::vector<FoundCause> causes_that_cover(const Evidence& evidence, const Diagnosis& found);

/// The answer where causes of the stage by itself were searched; `found`: of the stages before.
StageAnswer answer_from_search(Stage stage, const Diagnosis& of_stage, const Diagnosis& found);

/// Stages that the recording lacks and that causes of the first rank would leave different, as few as tell all of
/// them apart that any tell: found by replaying each cause in `blocks`. Of a formula alone, loads that may have it as well.
std::vector<Stage> stages_that_tell(const CauseSearch& world, std::span<const TileId> blocks,
                                    std::span<const FoundCause> causes);

}  // namespace tilescope
