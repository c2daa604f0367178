#pragma once

#include <cstdint>
#include <optional>

#include "oracle/causes/find_causes.h"
#include "oracle/judge/observe.h"

namespace tilescope {

/// Shows `observe`, from any thread, each captured tile of `cause.observed` in one head, or in one query
/// block of it, and what a kernel with the mistake holds as what is expected; nothing of a structural cause.
/// `report` and `options` are those of find_causes(), and the recording is the one that it was given.
/// Errors: Error for a damaged file, and what `options.check` throws.
void observe_replayed(const Recording& recording, const Report& report, const FoundCause& cause,
                      const CauseOptions& options, std::int64_t batch, std::int64_t head,
                      std::optional<std::int64_t> q_block, const ObservedTileFunction& observe);

}  // namespace tilescope
