#include "oracle/causes/site.h"

#include <algorithm>

#include "oracle/judge/tile_judge.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

CauseSearch::CauseSearch(const Recording& recording, const CompareOptions& compare, double confidence,
                         std::function<void()> check)
    : recording_(recording),
      compare_(compare),
      rounding_(rounding_model_of(recording, confidence)),
      check_(std::move(check)) {}

std::shared_ptr<const HeadCall> CauseSearch::call(std::int64_t batch, std::int64_t head) const {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<const HeadCall>& call = calls_[{batch, head}];
    if (!call) call = std::make_shared<HeadCall>(make_head_call(recording_, rounding_, batch, head));
    return call;
}

Matrix CauseSearch::input_rows(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
                               std::int64_t count) const {
    const Problem entry = problem_of(recording_.problem(), recording_.side_inputs(), batch);
    const std::int64_t length = stage == Stage::q ? entry.seqlen_q : entry.seqlen_kv;
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, length);
    const std::int64_t end = std::clamp<std::int64_t>(first + count, begin, length);
    const std::int64_t cols = stage == Stage::v ? entry.head_dim_v : entry.head_dim;
    Matrix rows = Matrix::Zero(count, cols);
    if (end > begin)
        rows.middleRows(begin - first, end - begin) =
            load_input(recording_, input_of(stage), batch, head, begin, end - begin);
    return rows;
}

HeadCall& SearchedTile::own_call() {
    auto own = std::make_shared<HeadCall>(*call);
    HeadCall& changed = *own;
    call = std::move(own);
    return changed;
}

std::int64_t SearchedTile::keys() const {
    return tile_extent(call->problem, Stage::k, id).rows;
}

std::int64_t SearchedTile::rows() const {
    return tile_extent(call->problem, Stage::q, id).rows;
}

Input input_of(Stage stage) {
    return stage == Stage::q ? Input::q : stage == Stage::k ? Input::k : Input::v;
}

Estimate finished_scores(const SearchedTile& site) {
    return finish_scores(*site.call, site.first_row, site.first_key, site.dumped_s);
}

void take_finished_scores(SearchedTile& site) {
    site.dumped_s = finished_scores(site);
    Units& units = site.own_call().units;
    units.s_capped = units.s_biased = units.s_masked = true;
}

Matrix& q_of(SearchedTile& site) {
    return site.q.value;
}

Matrix& k_of(SearchedTile& site) {
    return site.k.value;
}

Matrix& v_of(SearchedTile& site) {
    return site.v.value;
}

RunningState whole_state(const SearchedTile& site) {
    RunningState whole = whole_state(*site.call, site.splits);
    if (!site.call->problem.is_split() && site.call->problem.l_lanes == 1) return whole;
    // Of a split that saw nothing there is nothing to weigh, but its NaN is in the sums all the same.
    for (const RunningState& split : site.splits) {
        for (Eigen::Index i = 0; i < split.l.value.rows(); ++i) {
            if (!split.l.value.row(i).hasNaN() || split.m.value(i, 0) != -infinity) continue;
            whole.l.value.row(i).setConstant(quiet_nan);
            whole.acc.value.row(i).setConstant(quiet_nan);
        }
    }
    return whole;
}

Estimate expected_of(Stage stage, const SearchedTile& site) {
    const HeadCall& call = *site.call;
    if (stage == Stage::q) return staged_operand(call, stage, site.first_row, site.raw).expected;
    if (is_operand(stage)) return staged_operand(call, stage, site.first_key, site.raw).expected;
    if (stage == Stage::o) return output(call, whole_state(site));
    if (stage == Stage::lse) return log_sum_exp(call, whole_state(site));
    Estimate s;
    if (stage == Stage::m || stage == Stage::p || stage == Stage::acc) s = finished_scores(site);
    TileInputs inputs{call, site.id.kv_tile, site.first_row, site.first_key, {site.q, site.k, site.v}};
    inputs.begins = site.begins;
    inputs.before = &site.before;
    inputs.dumped_s = &site.dumped_s;
    inputs.s = &s;
    inputs.m = inputs.p_max = &site.m;
    inputs.p = &site.p;
    inputs.p_operand = &site.operand_p;
    inputs.factor = &site.factor;
    return expected_of(stage, inputs);
}

}  // namespace tilescope
