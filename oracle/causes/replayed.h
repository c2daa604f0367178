#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/causes/causes.h"
#include "oracle/causes/search.h"
#include "oracle/observe.h"

namespace tilescope {

/// How a cause is replayed. The recording that it was found in must outlive it.
struct CauseReplay {
    Stage acts = Stage::q;      ///< in which the mistake is made
    Stage observed = Stage::q;  ///< in which it shows: the one that is replayed
    Scope scope = Scope::everywhere;
    std::vector<Change> changes;  ///< the mistake last, after those that it was found beside
};

/// Shows `observe`, from any thread, each captured tile of the replayed stage in one head, or in one query
/// block of it, and what a kernel with the mistake holds as what is expected. `report` and `options` are
/// those of find_causes(). Errors: Error for a damaged file.
void observe_replayed(const Recording& recording, const Report& report, const CauseReplay& replay,
                      const CauseOptions& options, std::int64_t batch, std::int64_t head,
                      std::optional<std::int64_t> q_block, const ObservedTileFunction& observe);

}  // namespace tilescope
