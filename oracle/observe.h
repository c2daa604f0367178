#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "oracle/heatmap/quantity.h"
#include "oracle/judge.h"

namespace tilescope {

/// Called from any thread with each captured tile and what it should hold.
using ObservedTileFunction = std::function<void(const ObservedTile&)>;

/// A function for JudgeOptions::observe. Everything must outlive it.
TileObserver observer_of(const Recording& recording, const Recording* other, const CompareOptions& options,
                         const ObservedTileFunction& observe);

/// The same for JudgeOptions::observe_inherited.
InheritedObserver inherited_observer_of(const Recording& recording, const CompareOptions& options,
                                        const ObservedTileFunction& observe);

/// Shows `observe` the captured tiles of a head, or of one query block of it, stage-local or against `other`.
/// Unlike judge() it does not mind that nothing was compared, or that the run did not complete.
/// `observe_inherited` is shown the tiles again that may have inherited an error, with what is expected end
/// to end. `options.progress` and `observe` may throw to stop. Errors: as judge() for what cannot be read.
void observe_tiles(const Recording& recording, const Recording* other, JudgeOptions options,
                   std::int64_t batch, std::int64_t head, std::optional<std::int64_t> q_block,
                   const ObservedTileFunction& observe, const ObservedTileFunction& observe_inherited = {});

}  // namespace tilescope
