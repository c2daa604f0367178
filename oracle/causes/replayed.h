#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording/recording_view.h"
#include "oracle/causes/site.h"
#include "oracle/judge/diagnosis.h"

namespace tilescope {

/// A tile as a kernel with the mistake should hold it.
struct ReplayedTile {
    TileId id;
    Estimate expected;  ///< in the dump's units, without padding
};

/// The tiles of `cause.observed` in one block of block_of_tile(), with the cause where it was found and healthy
/// elsewhere; none of a structural cause. Errors: Error for a damaged file.
std::vector<ReplayedTile> replayed_tiles(const CauseSearch& world, const FoundCause& cause,
                                         const TileId& block);

/// A recording with the replayed tiles in the place of those of `cause.observed`. Both must outlive it.
class ReplayedRecording final : public RecordingView {
 public:
    /// Errors: Error where the cause is structural.
    ReplayedRecording(const Recording& recording, const FoundCause& cause, double confidence);

    const Provenance& provenance() const override { return provenance_; }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;
    // A replay is another run than those that the recording was compared with.
    bool has_writers(Stage /*stage*/) const override { return false; }
    Span<const ReferenceInfo> references() const override { return {}; }

 private:
    const FoundCause& cause_;
    CauseSearch world_;
    Provenance provenance_;
    mutable std::mutex mutex_;
    mutable std::optional<TileId> in_block_;  ///< that tiles_ are of
    mutable std::vector<ReplayedTile> tiles_;
};

}  // namespace tilescope
