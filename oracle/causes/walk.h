#pragma once

#include <functional>
#include <span>
#include <vector>

#include "oracle/causes/site.h"

namespace tilescope {

/// One thing that a kernel does otherwise in a stage: other inputs of its formula, another result, or both.
struct Change {
    std::function<void(Site&)> inputs = {};
    std::function<void(const Site&, Estimate&)> result = {};
    /// Its budget is wider by right: the signature has found numbers of a narrow type.
    bool widens = false;
};

/// expected_of(stage) of a kernel with these changes, in the order given.
Estimate expected_with(std::span<const Change> changes, Stage stage, Site site);

/// Recomputes one query block KV tile by KV tile, from what was dumped where it was.
class Walk {
 public:
    /// `changes` act in the stage `acts`; none: a healthy kernel.
    Walk(const World& world, const TileId& q_block, Stage acts, std::span<const Change> changes);

    /// Calls `see` with what goes into each tile of `observed` and what comes out of it, as expected_of().
    void run(Stage observed, const std::function<void(const Site&, const Estimate&)>& see);

 private:
    bool is_passed_over(const TileId& id, Stage observed) const;
    Estimate expected(Stage stage) const;
    Estimate settled(Stage stage, const Estimate& estimate) const;
    void load_q();
    void load_keys(Stage stage, Operand& operand);
    void step(Stage observed, const std::function<void(const Site&, const Estimate&)>& see);
    void step_softmax(Stage observed, const std::function<void(const Site&, const Estimate&)>& see);

    const World& world_;
    Stage acts_;
    std::span<const Change> changes_;
    Site site_;
    std::vector<RunningState> splits_;
    std::vector<bool> begun_;
    std::size_t split_ = 0;
    Estimate q_expected_;
};

}  // namespace tilescope
