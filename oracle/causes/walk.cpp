#include "oracle/causes/walk.h"

#include <algorithm>
#include <array>

#include "oracle/replay.h"
#include "oracle/softmax.h"
#include "oracle/tiles.h"

namespace tilescope {

Estimate expected_with(std::span<const Change> changes, Stage stage, Site site) {
    for (const Change& change : changes) {
        if (change.inputs) change.inputs(site);
    }
    Estimate estimate = expected_of(stage, site);
    for (const Change& change : changes) {
        if (change.result) change.result(site, estimate);
    }
    return estimate;
}

Walk::Walk(const World& world, const TileId& q_block, Stage acts, std::span<const Change> changes)
    : world_(world), acts_(acts), changes_(changes) {
    site_.world = &world;
    site_.id = {q_block.batch, q_block.head, q_block.q_block, 0};
    site_.call = world.call(q_block.batch, q_block.head);
    const Problem& problem = site_.call->problem;
    site_.first_row = q_block.q_block * problem.block_m;
    const std::int64_t per_split = problem.kv_tiles_per_split > 0
                                       ? problem.kv_tiles_per_split
                                       : std::max<std::int64_t>(1, problem.kv_tiles());
    const std::int64_t splits = std::max<std::int64_t>(1, (problem.kv_tiles() + per_split - 1) / per_split);
    for (std::int64_t i = 0; i < splits; ++i)
        splits_.push_back(initial_state(*site_.call, site_.rows(), i == 0));
    begun_.assign(splits_.size(), false);
}

Estimate Walk::expected(Stage stage) const {
    const bool changed = stage == acts_ && !changes_.empty();
    return changed ? expected_with(changes_, stage, narrowed(site_, stage)) : expected_of(stage, site_);
}

Estimate Walk::settled(Stage stage, const Estimate& estimate) const {
    const auto values = world_.has(stage)
                            ? load_tile(world_.recording(), site_.call->problem, stage, site_.id)
                            : std::nullopt;
    if (!values) return estimate;
    return settle(
        estimate, *values,
        dump_factor(*site_.call, stage, site_.first_row, site_.first_key, values->rows(), values->cols()));
}

bool Walk::is_passed_over(const TileId& id, Stage observed) const {
    constexpr std::array stages = {Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc};
    const bool captured = std::ranges::any_of(
        stages, [&](Stage stage) { return world_.has(stage) && world_.recording().has_tile(stage, id); });
    // A mask that is wrong may show what a right one hides.
    const bool may_show = !changes_.empty() && acts_ != observed;
    return !captured && !may_show && !tile_is_visible(site_.call->problem, id.q_block, id.kv_tile);
}

void Walk::load_q() {
    site_.raw = world_.input_rows(Stage::q, site_.id.batch, site_.id.head, site_.first_row, site_.rows());
    Site changed = site_;
    if (acts_ == Stage::q) {
        for (const Change& change : changes_)
            if (change.inputs) change.inputs(changed);
    }
    const StagedOperand staged = staged_operand(*changed.call, Stage::q, site_.first_row, changed.raw);
    q_expected_ = acts_ == Stage::q ? expected(Stage::q) : staged.expected;
    const auto dumped = world_.has(Stage::q)
                            ? load_tile(world_.recording(), site_.call->problem, Stage::q, site_.id)
                            : std::nullopt;
    site_.q =
        dumped ? dumped_operand(*site_.call, Stage::q, site_.first_row, staged, *dumped) : staged.natural;
}

void Walk::load_keys(Stage stage, Operand& operand) {
    const std::int64_t head_kv = site_.call->problem.head_kv(site_.id.head);
    site_.raw = world_.input_rows(stage, site_.id.batch, head_kv, site_.first_key, site_.keys());
    Site changed = site_;
    if (acts_ == stage) {
        for (const Change& change : changes_)
            if (change.inputs) change.inputs(changed);
    }
    const StagedOperand staged = staged_operand(*changed.call, stage, site_.first_key, changed.raw);
    const auto dumped = world_.has(stage)
                            ? load_tile(world_.recording(), site_.call->problem, stage, site_.id)
                            : std::nullopt;
    operand = dumped ? dumped_operand(*site_.call, stage, site_.first_key, staged, *dumped) : staged.natural;
}

void Walk::run(Stage observed, const std::function<void(const Site&, const Estimate&)>& see) {
    load_q();
    if (observed == Stage::q) return see(site_, q_expected_);
    const Problem& problem = site_.call->problem;
    const std::int64_t tiles = problem.kv_tiles();
    const bool reverse = world_.recording().units().kv_order == KvOrder::reverse;
    for (std::int64_t i = 0; i < tiles; ++i) {
        site_.id.kv_tile = reverse ? tiles - 1 - i : i;
        world_.check();
        if (is_passed_over(site_.id, observed)) continue;
        site_.first_key = site_.id.kv_tile * problem.block_n;
        split_ =
            std::size_t(problem.kv_tiles_per_split > 0 ? site_.id.kv_tile / problem.kv_tiles_per_split : 0);
        site_.begins = !begun_[split_];
        begun_[split_] = true;
        step(observed, see);
    }
    if (observed < Stage::o) return;
    site_.id.kv_tile = 0;
    site_.first_key = 0;
    site_.splits = splits_;
    see(site_, expected(observed));
}

void Walk::step(Stage observed, const std::function<void(const Site&, const Estimate&)>& see) {
    load_keys(Stage::k, site_.k);
    if (observed == Stage::k) return see(site_, expected(Stage::k));
    if (observed >= Stage::acc || observed == Stage::v) load_keys(Stage::v, site_.v);
    if (observed == Stage::v) return see(site_, expected(Stage::v));
    if (site_.begins) site_.k_before = Matrix::Zero(site_.call->problem.block_n, site_.k.value.cols());
    const Estimate s = expected(Stage::s);
    if (observed == Stage::s) see(site_, s);
    site_.k_before.topRows(site_.k.value.rows()) += site_.k.value;
    if (observed == Stage::s) return;
    site_.dumped_s = settled(Stage::s, s);
    step_softmax(observed, see);
}

void Walk::step_softmax(Stage observed, const std::function<void(const Site&, const Estimate&)>& see) {
    const HeadCall& call = *site_.call;
    const Units& units = call.units;
    RunningState& state = splits_[split_];
    site_.m_before = state.m;
    const Estimate m = expected(Stage::m);
    if (observed == Stage::m) see(site_, m);
    site_.m = state.m = settled(Stage::m, m);
    if (observed == Stage::m) return;

    const Estimate p = expected(Stage::p);
    if (observed == Stage::p) see(site_, p);
    const Estimate dumped_p = settled(Stage::p, p);
    const bool uncast = units.p_cast == Dtype::f32;
    site_.p = uncast ? dumped_p : probabilities(call, finished_scores(site_), site_.m);
    site_.operand_p = uncast ? cast_probabilities(call, dumped_p, call.problem.dtype_p) : dumped_p;

    if (observed > Stage::p) {
        site_.factor = rescale_factor(call, site_.m_before, site_.m);
        site_.l_before = state.l;
        const Estimate l = expected(Stage::l);
        if (observed == Stage::l) see(site_, l);
        state.l = settled(Stage::l, l);
    }
    if (observed > Stage::l) {
        site_.acc_before = state.acc;
        const Estimate acc = expected(Stage::acc);
        if (observed == Stage::acc) see(site_, acc);
        state.acc = settled(Stage::acc, acc);
    }
    site_.p_of_tile_before = dumped_p;
}

}  // namespace tilescope
