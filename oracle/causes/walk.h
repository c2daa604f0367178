#pragma once

#include <functional>
#include <memory>
#include <span>

#include "oracle/causes/site.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/replay/gradient_replay.h"
#include "oracle/replay/replay.h"

namespace tilescope {

struct FormulaChange;

/// One thing that a kernel does otherwise in a stage: other inputs of its formula, another result, or both.
struct Change {
    /// The formula that `result` puts in place of that of the stage; null: it is none.
    std::shared_ptr<const FormulaChange> formula = {};
    /// Of an array that is read, or stored, at an index: its name and the index.
    std::vector<CauseParameter> indices = {};
    std::function<void(SearchedTile&)> inputs = {};
    std::function<void(const SearchedTile&, Estimate&)> result = {};
    /// Rows of K or V behind the last key, which the kernel takes for keys like any other, up to the end of the last KV
    /// tile. It is made in s, where neither s nor p was dumped.
    std::function<Matrix(const SearchedTile&, Stage operand, std::int64_t first, std::int64_t count)>
        keys_behind = {};
    /// Elements of the stage's tile that have it; empty: all of them.
    std::function<bool(const SearchedTile&, Eigen::Index row, Eigen::Index col)> where = {};
    /// The same change, where what it leaves depends on where it is made, as memory does that is written elsewhere.
    std::function<Change(const decltype(where)&)> made_where = {};
    /// It takes what was in memory before: of the first tile in a memory it says nothing.
    bool takes_memory = false;
    /// The mistake is a cast to a narrow type, found from numbers of that type: its replay may have a wider
    /// budget than a healthy kernel.
    bool widens = false;
};

/// expected_of(stage) of a kernel with these changes, in the order given.
Estimate expected_with(std::span<const Change> changes, Stage stage, SearchedTile site);

/// The block that a tile of the stage is replayed with: its query block, or of dk and dv its KV tile.
TileId block_of_tile(Stage stage, const TileId& tile);
/// The stage whose tiles are these blocks: q, or dk.
Stage stage_of_blocks(Stage stage);

/// Replays one block, tile by tile, where some formulas are changed; what was dumped takes the place of what is
/// computed.
class ChangedReplay {
 public:
    /// `changes` act in the stage `acts`; none: a healthy kernel. `block` is that of the tiles that run() is asked for.
    ChangedReplay(const CauseSearch& world, const TileId& block, Stage acts, std::span<const Change> changes);

    /// Calls `see` with what goes into each tile of `observed` and what comes out of it, as expected_of().
    void run(Stage observed, const std::function<void(const SearchedTile&, const Estimate&)>& see);

 private:
    using See = std::function<void(const SearchedTile&, const Estimate&)>;

    void run_forward(Stage observed, const See& see);
    void run_rows(Stage observed, const See& see);
    void run_keys(Stage observed, const See& see);
    void see_gradient(Stage observed, GradientParts parts, const See& see);
    GradientRows load_rows();
    Estimate expected_delta();
    GradientTile gradient_tile(Stage observed, const GradientRows& rows, const See& see);
    SearchedTile site_at(Stage stage, const GradientInputs& inputs, const GradientTile& tile) const;
    void set_tile(std::int64_t q_block, std::int64_t kv_tile);
    bool changes(Stage stage) const { return stage == acts_ && !changes_.empty(); }
    bool is_passed_over(const TileId& id, Stage observed) const;
    void add_keys_behind(Stage stage, std::int64_t first);
    std::optional<MatrixF> dumped(Stage stage) const;
    Operand load_operand(Stage stage, std::int64_t first, std::int64_t head, std::int64_t rows);
    Estimate expected_operand(Stage stage) const;
    SearchedTile bare_site() const;
    SearchedTile site_at(Stage stage, const TileInputs& inputs) const;
    Estimate formula(Stage stage, const TileInputs& inputs);

    const CauseSearch& world_;
    TileId block_;
    Stage acts_;
    std::span<const Change> changes_;
    SearchedTile site_;  ///< what the sites of all stages share, and rows of an operand
    Matrix k_before_;
    Estimate p_of_tile_before_;
    Estimate p_of_tile_;
};

}  // namespace tilescope
