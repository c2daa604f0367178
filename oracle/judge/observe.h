#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "oracle/judge.h"

namespace tilescope {

/// A captured tile as a JudgeOptions::observe is shown it.
struct ObservedTile {
    const Problem& problem;  ///< with the batch entry's own lengths
    TileContext context;
    const MatrixF& got;
    /// Of a healthy kernel, or for quantities of a replay what that holds. Null: not computed, and only
    /// Quantity::dumped can be asked for.
    const Estimate* expected = nullptr;
    const CompareOptions& options;  ///< tolerances given by hand are not for operands
    /// Null: nothing that the tile is computed from diverges, as far as is known.
    const Estimate* end_to_end = nullptr;
};

/// The tile against what the inputs alone give, where that is known.
ObservedTile end_to_end_of(const ObservedTile& tile);

/// `against_other`: what is expected comes from another recording. `completed`: the run, or both, got to
/// their end; otherwise nobody is to blame for what was not written.
TileContext observed_context(const Recording& recording, const Problem& entry, Stage stage,
                             const TileId& tile, const MatrixF& got, bool against_other,
                             bool completed = true);

/// How the tile is compared: operands must be exact copies.
CompareOptions compare_options(const ObservedTile& tile);

/// One element of the tile against the stages before it.
struct Judged {
    float got = 0;
    double expected = 0;
    double tolerance = 0;
    Finding finding = Finding::match;
};
Judged judge_at(const ObservedTile& tile, const CompareOptions& options, std::int64_t row, std::int64_t col);

/// Whether the element agrees with the stages before it and yet differs end to end: those that a report
/// counts.
bool is_inherited(const ObservedTile& tile, std::int64_t row, std::int64_t col);

/// Of one element of the tile, in coordinates of the tensor, with its finding.
Element judged_element(const ObservedTile& tile, std::int64_t row, std::int64_t col);

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

/// The same, each tile once, against what the inputs alone give. Operands and named tiles have no other reference than their own.
void observe_end_to_end(const Recording& recording, JudgeOptions options, std::int64_t batch,
                        std::int64_t head, std::optional<std::int64_t> q_block,
                        const ObservedTileFunction& observe);

}  // namespace tilescope
