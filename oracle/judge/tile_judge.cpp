#include "oracle/judge/tile_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dump/recording/visible_tiles.h"
#include "oracle/formula/budget.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

bool completed(const Recording& recording) {
    return recording.capture().ended == "completed";
}

namespace {

/// Whether the tile was asked for and the run got to its end.
bool was_asked_for(const Recording& recording, const Problem& entry, Stage stage, const TileId& id) {
    const std::optional<Selection>& selection = recording.capture().selection;
    return completed(recording) && selection && selection->selects(entry, stage, id);
}

}  // namespace

bool is_operand(Stage stage) {
    return stage == Stage::q || stage == Stage::k || stage == Stage::v || stage == Stage::dout;
}

bool must_hold(const Recording& recording, const Problem& entry, Stage stage, const TileId& id) {
    return !is_named(stage) && was_asked_for(recording, entry, stage, id) &&
           is_needed(recording, entry, stage, id);
}

bool is_missing_in_pair(const Recording& recording, const Recording& other, const Problem& entry, Stage stage,
                        const TileId& id) {
    const bool mine = recording.has_tile(stage, id);
    const bool theirs = other.has_tile(stage, id);
    if (is_named(stage))
        return mine != theirs && was_asked_for(recording, entry, stage, id) &&
               was_asked_for(other, entry, stage, id);
    return !(mine && theirs) && must_hold(recording, entry, stage, id) && must_hold(other, entry, stage, id);
}

TileJudge::TileJudge(const Plan& plan, std::int64_t batch, std::int64_t head, Pass pass, JudgedPart& partial)
    : plan_(plan),
      pass_(pass),
      call_(make_head_call(plan.recording, plan.rounding, batch, head)),
      partial_(partial) {
    if (plan.other != nullptr) other_call_ = make_head_call(*plan.other, plan.rounding, batch, head);
}

DumpedTile TileJudge::load(std::span<const Stage> stages, const TileId& id) const {
    DumpedTile dumped;
    for (const Stage stage : stages) {
        if (plan_.has(stage))
            dumped[static_cast<std::size_t>(stage)] = load_tile(plan_.recording, problem(), stage, id);
    }
    return dumped;
}

bool TileJudge::is_ended() const {
    if (!plan_.until) return false;
    return std::ranges::any_of(all_stages(), [&](const StageInfo& info) {
        return info.stage <= *plan_.until && partial_.tally(info.stage).diverges();
    });
}

bool TileJudge::has_any(std::span<const Stage> stages, const TileId& id) const {
    const auto& selection = plan_.recording.capture().selection;
    const bool visible = selection && tile_is_seen(plan_.recording, problem(), id);
    return std::ranges::any_of(stages, [&](Stage stage) {
        if (!plan_.has(stage)) return false;
        const bool expected = visible && selection->selects(problem(), stage, id);
        return expected || plan_.recording.has_tile(stage, id);
    });
}

DumpFactor TileJudge::factor_of(const HeadCall& call, Stage stage, const TileId& id) {
    const TileShape extent = tile_extent(call.problem, stage, id);
    return dump_factor(call, stage, id.q_block * call.problem.block_m, id.kv_tile * call.problem.block_n,
                       extent.rows, extent.cols);
}

void TileJudge::compare(Stage stage, const TileId& id, const std::optional<MatrixF>& got,
                        const Estimate& mine, const Estimate* theirs, const Estimate* end_to_end) {
    if (plan_.other != nullptr) {
        compare_pair(stage, id, got, mine, *theirs);
    } else if (got) {
        compare_with(stage, id, *got, mine, end_to_end);
    } else if (must_hold(plan_.recording, problem(), stage, id)) {
        count_missing(stage, id);
    }
}

void TileJudge::compare_with(Stage stage, const TileId& id, const MatrixF& got, const Estimate& expected,
                             const Estimate* end_to_end) {
    TileContext context = tile_context(plan_.recording, problem(), call_.units, stage, id, got);
    context.expects_nan = is_operand(stage) || plan_.other != nullptr;
    context.may_be_unwritten =
        !completed(plan_.recording) || (plan_.other != nullptr && !completed(*plan_.other));
    // Operands must be exact copies: a tolerance given by hand is not for them.
    const CompareOptions exact_options = plan_.compare.derived();
    const CompareOptions& options = is_operand(stage) ? exact_options : plan_.compare;
    const DumpFactor factor = factor_of(stage, id);
    const auto judge = [&](const Estimate& there, const Estimate* end_to_end_there) {
        if (plan_.observe && pass_ == Pass::divergences) plan_.observe(stage, id, got, there);
        if (plan_.observe_inherited && end_to_end_there != nullptr)
            plan_.observe_inherited(stage, id, got, there, *end_to_end_there);
        compare_tile(context, got, there, end_to_end_there, options, partial_.tally(stage));
        const Dtype cast = call_.units.p_cast;
        if (stage == Stage::p && cast != Dtype::f32) count_saturated(cast, got, there, partial_.tally(stage));
    };
    if (factor.is_one()) return judge(expected, end_to_end);
    const Estimate end_to_end_there = end_to_end != nullptr ? in_dump_units(*end_to_end, factor) : Estimate();
    judge(in_dump_units(expected, factor), end_to_end != nullptr ? &end_to_end_there : nullptr);
}

void TileJudge::compare_pair(Stage stage, const TileId& id, const std::optional<MatrixF>& got,
                             const Estimate& mine, const Estimate& theirs) {
    const std::optional<MatrixF> other = load_tile(*plan_.other, problem(), stage, id);
    if (!got || !other) {
        if (is_missing_in_pair(plan_.recording, *plan_.other, problem(), stage, id)) count_missing(stage, id);
        return;
    }
    const DumpFactor factor = factor_of(*other_call_, stage, id);
    // NaN keeps its payload, and with it whether the other one was written.
    Estimate expected{other->cast<double>(), mine.error + theirs.error, mine.spread};
    if (!factor.is_one()) {
        for (Eigen::Index i = 0; i < expected.value.rows(); ++i)
            for (Eigen::Index j = 0; j < expected.value.cols(); ++j) expected.value(i, j) /= factor.at(i, j);
    }
    expected.error =
        expected.error.array().isNaN().select(std::numeric_limits<double>::infinity(), expected.error);
    compare_with(stage, id, *got, expected, nullptr);
}

void TileJudge::count_missing(Stage stage, const TileId& id) {
    count_missing_tile(tile_context(problem(), stage, id), tile_extent(problem(), stage, id), plan_.compare,
                       partial_.tally(stage));
}

}  // namespace tilescope
