#pragma once

#include <functional>
#include <span>

#include "oracle/causes/site.h"
#include "oracle/replay.h"

namespace tilescope {

/// One thing that a kernel does otherwise in a stage: other inputs of its formula, another result, or both.
struct Change {
    std::function<void(Site&)> inputs = {};
    std::function<void(const Site&, Estimate&)> result = {};
    /// The mistake is a cast to a narrow type, found from numbers of that type: its replay may have a wider
    /// budget than a healthy kernel.
    bool widens = false;
};

/// expected_of(stage) of a kernel with these changes, in the order given.
Estimate expected_with(std::span<const Change> changes, Stage stage, Site site);

/// Replays one query block, KV tile by KV tile, where some formulas are changed; what was dumped takes the
/// place of what is computed.
class Walk {
 public:
    /// `changes` act in the stage `acts`; none: a healthy kernel.
    Walk(const World& world, const TileId& q_block, Stage acts, std::span<const Change> changes);

    /// Calls `see` with what goes into each tile of `observed` and what comes out of it, as expected_of().
    void run(Stage observed, const std::function<void(const Site&, const Estimate&)>& see);

 private:
    bool changes(Stage stage) const { return stage == acts_ && !changes_.empty(); }
    bool is_passed_over(const TileId& id, Stage observed) const;
    std::optional<MatrixF> dumped(Stage stage) const;
    Operand load_operand(Stage stage, std::int64_t first, std::int64_t head, std::int64_t rows);
    Estimate expected_operand(Stage stage) const;
    Site bare_site() const;
    Site site_at(Stage stage, const TileInputs& inputs) const;
    Estimate formula(Stage stage, const TileInputs& inputs);

    const World& world_;
    Stage acts_;
    std::span<const Change> changes_;
    Site site_;  ///< what the sites of all stages share, and rows of an operand
    Matrix k_before_;
    Estimate p_of_tile_before_;
    Estimate p_of_tile_;
};

}  // namespace tilescope
