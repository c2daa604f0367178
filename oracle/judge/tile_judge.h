#pragma once

#include <optional>

#include "oracle/formula/head_call.h"
#include "oracle/judge/plan.h"
#include "oracle/replay/replay.h"

namespace tilescope {

/// Whether the stage is an exact copy of an input.
bool is_operand(Stage stage);

/// Whether the run got to its end.
bool completed(const Recording& recording);

/// Whether the tile was asked for, the kernel cannot do without it, and the run got to its end. `entry` is
/// the problem with the batch entry's own lengths.
bool must_hold(const Recording& recording, const Problem& entry, Stage stage, const TileId& id);

/// Whether the tile must be in both recordings and is not. Nobody knows which tiles of a named tile a kernel
/// writes: a tile that one of the runs wrote must be in the other as well.
bool is_missing_in_pair(const Recording& recording, const Recording& other, const Problem& entry, Stage stage,
                        const TileId& id);

/// Compares tiles of one head with what they should hold, and adds what it finds to a JudgedPart.
class TileJudge {
 public:
    TileJudge(const Plan& plan, std::int64_t batch, std::int64_t head, Pass pass, JudgedPart& partial);

    /// `mine` is what the formulas expect of this recording, in natural units; `theirs` what they expect of
    /// the other one, where there is one. `end_to_end` is null but in Pass::inherited.
    void compare(Stage stage, const TileId& id, const std::optional<MatrixF>& got, const Estimate& mine,
                 const Estimate* theirs, const Estimate* end_to_end);

    /// The tile's captured stages among `stages`.
    DumpedTile load(std::span<const Stage> stages, const TileId& id) const;

    /// Whether one of `stages` has a tile here, captured or missing.
    bool has_any(std::span<const Stage> stages, const TileId& id) const;

    /// Whether something has diverged by which the plan says to end.
    bool is_ended() const;

    DumpFactor factor_of(Stage stage, const TileId& id) const { return factor_of(call_, stage, id); }

    const HeadCall& call() const { return call_; }
    /// In the units of the other recording; null where there is none.
    const HeadCall* other_call() const { return other_call_ ? &*other_call_ : nullptr; }
    const Problem& problem() const { return call_.problem; }
    Pass pass() const { return pass_; }
    JudgedPart& partial() { return partial_; }

 private:
    void compare_with(Stage stage, const TileId& id, const MatrixF& got, const Estimate& expected,
                      const Estimate* end_to_end);
    void compare_pair(Stage stage, const TileId& id, const std::optional<MatrixF>& got, const Estimate& mine,
                      const Estimate& theirs);
    void count_missing(Stage stage, const TileId& id);
    static DumpFactor factor_of(const HeadCall& call, Stage stage, const TileId& id);

    const Plan& plan_;
    Pass pass_;
    HeadCall call_;
    std::optional<HeadCall> other_call_;
    JudgedPart& partial_;
};

}  // namespace tilescope
