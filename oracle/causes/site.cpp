#include "oracle/causes/site.h"

#include <algorithm>

#include "oracle/formula/gradient_sum.h"
#include "oracle/formula/gradients.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/gradient_replay.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

CauseSearch::CauseSearch(const Recording& recording, const CompareOptions& compare, double confidence,
                         std::function<void()> check, Attempts* attempts)
    : recording_(recording),
      compare_(compare),
      rounding_(rounding_model_of(recording, confidence)),
      check_(std::move(check)),
      attempts_(attempts) {}

CauseSearch::CauseSearch(const CauseSearch& world, std::span<const Stage> hidden)
    : recording_(world.recording_),
      compare_(world.compare_),
      rounding_(world.rounding_),
      check_(world.check_),
      attempts_(world.attempts_),
      hidden_(world.hidden_) {
    for (const Stage stage : hidden) hidden_.set(static_cast<std::size_t>(stage));
}

std::shared_ptr<const HeadCall> CauseSearch::call(std::int64_t batch, std::int64_t head) const {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<const HeadCall>& call = calls_[{batch, head}];
    if (!call) call = std::make_shared<HeadCall>(make_head_call(recording_, rounding_, batch, head));
    return call;
}

Matrix CauseSearch::input_rows(Stage stage, std::int64_t batch, std::int64_t head, std::int64_t first,
                               std::int64_t count) const {
    const Problem& whole = recording_.problem();
    const std::int64_t heads = is_of_queries(stage) ? whole.heads : whole.heads_kv;
    if (batch < 0 || batch >= whole.batch || head < 0 || head >= heads)
        return Matrix::Zero(count, tile_shape(whole, stage).cols);
    const Problem entry = problem_of(whole, recording_.side_inputs(), batch);
    const std::int64_t length = is_of_queries(stage) ? entry.seqlen_q : entry.seqlen_kv;
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, length);
    const std::int64_t end = std::clamp<std::int64_t>(first + count, begin, length);
    const std::int64_t cols = tile_shape(entry, stage).cols;
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
    switch (stage) {
        case Stage::q:
            return Input::q;
        case Stage::k:
            return Input::k;
        case Stage::dout:
            return Input::dout;
        default:
            return Input::v;
    }
}

bool is_of_all_queries(Stage stage) {
    return stage == Stage::dk || stage == Stage::dv;
}

bool is_gradient(Stage stage) {
    return stage == Stage::dq || is_of_all_queries(stage);
}

bool is_of_queries(Stage operand) {
    return operand == Stage::q || operand == Stage::dout;
}

Estimate finished_scores(const SearchedTile& site) {
    if (site.call->problem.direction == Direction::backward)
        return gradient_scores(*site.call, site.first_row, site.first_key, site.dumped_s);
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

std::int64_t effort_of(Stage stage, const Problem& problem) {
    constexpr std::int64_t of_element = 48;
    const TileShape shape = tile_shape(problem, stage);
    const std::int64_t terms = stage == Stage::s || stage == Stage::dp  ? problem.head_dim
                               : stage == Stage::acc                    ? problem.block_n
                               : stage == Stage::m || stage == Stage::l ? problem.block_n
                                                                        : 1;
    return shape.rows * shape.cols * (terms + of_element);
}

namespace {

Estimate sum_of_parts(Stage stage, const SearchedTile& site) {
    const TileShape extent = tile_extent(site.call->problem, stage, site.id);
    GradientSum sum(stage, extent.rows, extent.cols);
    for (const GradientPart& part : *site.parts) {
        spend(part.a.value.size() * extent.cols);
        sum.add(*site.call, part.a, part.scores, part.b);
    }
    return sum.gradient(*site.call);
}

/// Of a stage of one tile of the backward pass.
Estimate expected_gradient(Stage stage, const SearchedTile& site) {
    const HeadCall& call = *site.call;
    const GradientRows rows{site.q, site.dout.value, site.m, site.delta};
    GradientInputs inputs{call, site.first_row, site.first_key, rows, site.k, site.v};
    Estimate scores;
    Estimate cap;
    if (stage == Stage::p) scores = finished_scores(site);
    if (stage == Stage::ds && call.capped())
        cap = cap_derivative(call, site.first_row, site.first_key, site.dumped_s);
    inputs.scores = &scores;
    inputs.p = &site.p;
    inputs.dp = &site.dp;
    inputs.cap = call.capped() ? &cap : nullptr;
    return expected_of(stage, inputs);
}

}  // namespace

Estimate expected_of(Stage stage, const SearchedTile& site) {
    const HeadCall& call = *site.call;
    spend(effort_of(stage, call.problem));
    if (is_operand(stage)) {
        const std::int64_t first = is_of_queries(stage) ? site.first_row : site.first_key;
        return staged_operand(call, stage, first, site.raw).expected;
    }
    if (stage == Stage::s && site.scaled.value.size() > 0)
        return dumped_from_scaled(call, site.first_row, site.first_key, site.scaled);
    if (is_gradient(stage)) return sum_of_parts(stage, site);
    if (stage == Stage::delta)
        return site.o.value.size() > 0 ? row_delta(call, site.dout.value, site.o.value)
                                       : unknown_rows(site.rows());
    if (call.problem.direction == Direction::backward) return expected_gradient(stage, site);
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
    if (site.l.value.size() > 0) {
        inputs.l_before = &site.l_before;
        inputs.l = &site.l;
    }
    return expected_of(stage, inputs);
}

}  // namespace tilescope
