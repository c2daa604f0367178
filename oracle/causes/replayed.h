#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/causes/diagnosis.h"
#include "oracle/causes/site.h"

namespace tilescope {

/// A tile as a kernel with the mistake should hold it.
struct ReplayedTile {
    TileId id;
    Estimate expected;  ///< in the dump's units, without padding
};

/// The tiles of `cause.observed` in one query block, with the cause where it was found and healthy elsewhere;
/// none of a structural cause. Errors: Error for a damaged file.
std::vector<ReplayedTile> replayed_tiles(const World& world, const FoundCause& cause, const TileId& q_block);

/// A recording with the replayed tiles in the place of those of `cause.observed`. Both must outlive it.
class ReplayedRecording final : public Recording {
 public:
    /// Errors: Error where the cause is structural.
    ReplayedRecording(const Recording& recording, const FoundCause& cause, double confidence);

    const std::string& name() const override { return recording_.name(); }
    const Problem& problem() const override { return recording_.problem(); }
    const Units& units() const override { return recording_.units(); }
    const Provenance& provenance() const override { return provenance_; }
    const CaptureSummary& capture() const override { return recording_.capture(); }
    const ThreadLayouts& threads() const override { return recording_.threads(); }
    bool has_stage(Stage stage) const override { return recording_.has_stage(stage); }
    bool has_tile(Stage stage, const TileId& tile) const override { return recording_.has_tile(stage, tile); }
    bool read_tile(Stage stage, const TileId& tile, std::span<float> out) const override;
    bool has_input(Input input) const override { return recording_.has_input(input); }
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    std::span<float> out) const override {
        recording_.read_input(input, batch, head, row, count, out);
    }
    const SideInputs& side_inputs() const override { return recording_.side_inputs(); }
    bool has_bias() const override { return recording_.has_bias(); }
    void read_bias(std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t first_key,
                   std::span<float> out) const override {
        recording_.read_bias(batch, head, row, first_key, out);
    }

 private:
    const Recording& recording_;
    const FoundCause& cause_;
    World world_;
    Provenance provenance_;
    mutable std::mutex mutex_;
    mutable std::optional<TileId> in_block_;  ///< query block that tiles_ are of
    mutable std::vector<ReplayedTile> tiles_;
};

}  // namespace tilescope
