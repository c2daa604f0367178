#pragma once

#include <array>
#include <memory>

#include "dump/recording/recording_view.h"
#include "oracle/ranks/run_of_ranks.h"

namespace tilescope {

/// A step of a rank as a part of its run: what it read of q, k and v are stages, and its inputs are the rows as the ranks have
/// them that own them. So what arrived wrong is the first wrong stage, and what was computed from it inherited that.
class StepInRun final : public RecordingView {
 public:
    /// `part`: of the run's parts, a step.
    StepInRun(std::shared_ptr<const RunOfRanks> run, std::size_t part);

    bool has_stage(Stage stage) const override { return arrived(stage) || of().has_stage(stage); }
    bool has_tile(Stage stage, const TileId& tile) const override;
    bool may_hold(const TileId& q_block) const override {
        return arrived(Stage::k) || of().may_hold(q_block);
    }
    bool read_tile(Stage stage, const TileId& tile, Span<float> out) const override;
    void read_input(Input input, std::int64_t batch, std::int64_t head, std::int64_t row, std::int64_t count,
                    Span<float> out) const override;

 private:
    /// Whether the stage is shown as it arrived: it was not recorded by itself, and others own its rows.
    bool arrived(Stage stage) const;

    std::shared_ptr<const RunOfRanks> run_;
    // Of q, k and v:
    std::array<bool, 3> is_owned_{};    ///< its rows are read from their owners
    std::array<bool, 3> is_arrived_{};  ///< the stage is what the step read
};

}  // namespace tilescope
