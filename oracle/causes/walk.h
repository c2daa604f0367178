#pragma once

#include <functional>
#include <span>

#include "oracle/causes/site.h"
#include "oracle/replay/replay.h"

namespace tilescope {

/// One thing that a kernel does otherwise in a stage: other inputs of its formula, another result, or both.
struct Change {
    std::function<void(SearchedTile&)> inputs = {};
    std::function<void(const SearchedTile&, Estimate&)> result = {};
    /// Elements of the stage's tile that have it; empty: all of them.
    std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)> where = {};
    /// The mistake is a cast to a narrow type, found from numbers of that type: its replay may have a wider
    /// budget than a healthy kernel.
    bool widens = false;
};

/// expected_of(stage) of a kernel with these changes, in the order given.
Estimate expected_with(std::span<const Change> changes, Stage stage, SearchedTile site);

/// Replays one query block, KV tile by KV tile, where some formulas are changed; what was dumped takes the
/// place of what is computed.
class ChangedReplay {
 public:
    /// `changes` act in the stage `acts`; none: a healthy kernel.
    ChangedReplay(const CauseSearch& world, const TileId& q_block, Stage acts,
                  std::span<const Change> changes);

    /// Calls `see` with what goes into each tile of `observed` and what comes out of it, as expected_of().
    void run(Stage observed, const std::function<void(const SearchedTile&, const Estimate&)>& see);

 private:
    bool changes(Stage stage) const { return stage == acts_ && !changes_.empty(); }
    bool is_passed_over(const TileId& id, Stage observed) const;
    std::optional<MatrixF> dumped(Stage stage) const;
    Operand load_operand(Stage stage, std::int64_t first, std::int64_t head, std::int64_t rows);
    Estimate expected_operand(Stage stage) const;
    SearchedTile bare_site() const;
    SearchedTile site_at(Stage stage, const TileInputs& inputs) const;
    Estimate formula(Stage stage, const TileInputs& inputs);

    const CauseSearch& world_;
    Stage acts_;
    std::span<const Change> changes_;
    SearchedTile site_;  ///< what the sites of all stages share, and rows of an operand
    Matrix k_before_;
    Estimate p_of_tile_before_;
    Estimate p_of_tile_;
};

}  // namespace tilescope
