#include "oracle/causes/walk.h"

#include <algorithm>

#include "dump/recording/visible_tiles.h"
#include "oracle/causes/left_out_tiles.h"
#include "oracle/causes/phantoms.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// As one of the changes has it where that says so, and as the others alone have it elsewhere.
Estimate mixed(std::span<const Change> changes, std::size_t which, Stage stage, const SearchedTile& site) {
    std::vector<Change> all(changes.begin(), changes.end());
    const auto where = std::move(all[which].where);
    all[which].where = nullptr;
    Estimate estimate = expected_with(all, stage, site);
    all.erase(all.begin() + std::ptrdiff_t(which));
    const Estimate without = expected_with(all, stage, site);
    for (Eigen::Index i = 0; i < estimate.value.rows(); ++i) {
        for (Eigen::Index j = 0; j < estimate.value.cols(); ++j) {
            if (where(site, i, j)) continue;
            estimate.value(i, j) = without.value(i, j);
            estimate.error(i, j) = without.error(i, j);
        }
    }
    return estimate;
}

}  // namespace

Estimate expected_with(std::span<const Change> changes, Stage stage, SearchedTile site) {
    for (std::size_t i = 0; i < changes.size(); ++i)
        if (changes[i].where) return mixed(changes, i, stage, site);
    for (const Change& change : changes) {
        if (change.inputs) change.inputs(site);
    }
    Estimate estimate = expected_of(stage, site);
    for (const Change& change : changes) {
        if (change.result) change.result(site, estimate);
    }
    return estimate;
}

TileId block_of_tile(Stage stage, const TileId& tile) {
    TileId block = tile;
    (is_of_all_queries(stage) ? block.q_block : block.kv_tile) = 0;
    return block;
}

Stage stage_of_blocks(Stage stage) {
    return is_of_all_queries(stage) ? Stage::dk : Stage::q;
}

ChangedReplay::ChangedReplay(const CauseSearch& world, const TileId& block, Stage acts,
                             std::span<const Change> changes)
    : world_(world), block_(block), acts_(acts), changes_(changes) {
    site_.world = &world;
    site_.id = {block.batch, block.head, block.q_block, 0};
    site_.call = world.call(block.batch, block.head);
    site_.first_row = block.q_block * site_.call->problem.block_m;
    const bool is_longer =
        std::ranges::any_of(changes, [](const Change& change) { return bool(change.keys_behind); });
    const Problem& problem = site_.call->problem;
    const std::int64_t behind = problem.kv_tiles() * problem.block_n - problem.seqlen_kv;
    if (!is_longer || behind == 0) return;
    auto longer = std::make_shared<HeadCall>(with_phantom_keys(*site_.call, behind));
    longer->problem.seqlen_kv += behind;
    site_.call = std::move(longer);
}

/// Of the operand that was loaded from row `first` on.
void ChangedReplay::add_keys_behind(Stage stage, std::int64_t first) {
    const std::int64_t keys = world_.call(block_.batch, block_.head)->problem.seqlen_kv;
    const std::int64_t behind = first + site_.raw.rows() - keys;
    if (is_of_queries(stage) || behind <= 0) return;
    for (const Change& change : changes_)
        if (change.keys_behind) site_.raw.bottomRows(behind) = change.keys_behind(site_, stage, keys, behind);
}

std::optional<MatrixF> ChangedReplay::dumped(Stage stage) const {
    if (!world_.has(stage)) return std::nullopt;
    std::optional<MatrixF> values = load_tile(world_.recording(), site_.call->problem, stage, site_.id);
    const bool may_be_left_out = values && stage_info(stage).per_kv_tile && is_unwritten((*values)(0, 0));
    if (may_be_left_out && is_left_out(world_, site_.id)) return std::nullopt;
    return values;
}

bool ChangedReplay::is_passed_over(const TileId& id, Stage observed) const {
    const bool forward = site_.call->problem.direction == Direction::forward;
    const auto stages = forward ? std::span<const Stage>(forward_tile_stages) : gradient_tile_stages;
    const bool captured = std::ranges::any_of(
        stages, [&](Stage stage) { return world_.has(stage) && world_.recording().has_tile(stage, id); });
    // A mask that is wrong may show what a right one hides.
    const bool may_show = !changes_.empty() && acts_ != observed;
    return !captured && !may_show && !tile_is_seen(world_.recording(), site_.call->problem, id);
}

/// As dumped, or from rows of the input, which stay in the site.
Operand ChangedReplay::load_operand(Stage stage, std::int64_t first, std::int64_t head, std::int64_t rows) {
    site_.raw = world_.input_rows(stage, site_.id.batch, head, first, rows);
    add_keys_behind(stage, first);
    SearchedTile changed = site_;
    for (const Change& change : changes_) {
        if (acts_ == stage && change.inputs) change.inputs(changed);
    }
    const StagedOperand staged = staged_operand(*changed.call, stage, first, changed.raw);
    const std::optional<MatrixF> values = dumped(stage);
    return values ? dumped_operand(*site_.call, stage, first, staged, *values) : staged.natural;
}

/// What a tile of q, k or v should hold, of the rows that were loaded last.
Estimate ChangedReplay::expected_operand(Stage stage) const {
    return changes(stage) ? expected_with(changes_, stage, site_) : expected_of(stage, site_);
}

/// What the sites of all stages of a tile share.
SearchedTile ChangedReplay::bare_site() const {
    SearchedTile site;
    site.world = site_.world;
    site.id = site_.id;
    site.call = site_.call;
    site.first_row = site_.first_row;
    site.first_key = site_.first_key;
    return site;
}

/// What expected_of(stage) and changes of it take; of l and acc also what those of s and p take, whose hidden part they
/// add, and what those of m take, whose factor they have.
SearchedTile ChangedReplay::site_at(Stage stage, const TileInputs& in) const {
    SearchedTile site = bare_site();
    site.begins = in.begins;
    const bool is_of_maximum = stage == Stage::m || stage == Stage::l || stage == Stage::acc;
    if (stage == Stage::s || is_of_maximum) {
        site.q = in.operands.q;
        site.k = in.operands.k;
    }
    if (stage == Stage::s || stage == Stage::m || stage == Stage::l) site.k_before = k_before_;
    if (stage >= Stage::m && stage <= Stage::acc) site.dumped_s = *in.dumped_s;
    if (stage != Stage::s) site.before.m = in.before->m;
    if (stage > Stage::m) site.m = *in.m;
    if (stage >= Stage::p && stage <= Stage::acc) site.p_of_tile_before = p_of_tile_before_;
    if (stage == Stage::l || stage == Stage::acc) {
        site.factor = *in.factor;
        site.p = *in.p;
        site.operand_p = *in.p_operand;
    }
    if (stage == Stage::l) site.before.l = in.before->l;
    if (stage == Stage::acc) {
        site.before.acc = in.before->acc;
        site.v = in.operands.v;
        if (in.l != nullptr) {
            site.l_before = *in.l_before;
            site.l = *in.l;
        }
    }
    return site;
}

Estimate ChangedReplay::formula(Stage stage, const TileInputs& in) {
    spend(effort_of(stage, in.call.problem));
    if (stage == Stage::s && in.begins)
        k_before_ = Matrix::Zero(in.call.problem.block_n, in.operands.k.value.cols());
    Estimate estimate =
        changes(stage) ? expected_with(changes_, stage, site_at(stage, in)) : expected_of(stage, in);
    if (stage == Stage::p) {
        const std::optional<MatrixF> values = dumped(stage);
        p_of_tile_ = values ? settle(estimate, *values,
                                     dump_factor(in.call, stage, in.first_row, in.first_key, values->rows(),
                                                 values->cols()))
                            : estimate;
    }
    return estimate;
}

void ChangedReplay::run(Stage observed,
                        const std::function<void(const SearchedTile&, const Estimate&)>& see) {
    if (site_.call->problem.direction == Direction::forward) return run_forward(observed, see);
    return is_of_all_queries(observed) ? run_keys(observed, see) : run_rows(observed, see);
}

void ChangedReplay::run_forward(Stage observed, const See& see) {
    const Problem& problem = site_.call->problem;
    const Operand q = load_operand(Stage::q, site_.first_row, site_.id.head, site_.rows());
    if (observed == Stage::q) return see(site_, expected_operand(Stage::q));
    Replay replay(*site_.call, site_.id.q_block, std::min(observed, Stage::acc), Replay::Source::stages,
                  [&](Stage stage, const TileInputs& inputs) {
                      Estimate estimate = formula(stage, inputs);
                      if (stage == observed) see(site_at(stage, inputs), estimate);
                      return estimate;
                  });
    const std::int64_t head_kv = problem.head_kv(site_.id.head);
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        site_.id.kv_tile = kv_tile_in_order(problem, world_.recording().units().kv_order, i);
        world_.check();
        if (is_passed_over(site_.id, observed)) continue;
        site_.first_key = site_.id.kv_tile * problem.block_n;
        const auto load = [&](Stage stage) {
            return load_operand(stage, site_.first_key, head_kv, site_.keys());
        };
        if (is_operand(observed)) {
            load(observed);
            see(site_, expected_operand(observed));
            continue;
        }
        const Operand k = load(Stage::k);
        const Operand v = observed >= Stage::acc ? load(Stage::v) : Operand();
        DumpedTile tile;
        for (const Stage stage : {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc}) {
            if (stage <= observed && observed != Stage::s)
                tile[static_cast<std::size_t>(stage)] = dumped(stage);
        }
        replay.step(site_.id.kv_tile, {q, k, v}, tile);
        k_before_.topRows(k.value.rows()) += k.value;
        p_of_tile_before_ = std::move(p_of_tile_);
    }
    if (observed < Stage::o) return;
    site_.id.kv_tile = 0;
    site_.first_key = 0;
    SearchedTile site = bare_site();
    site.splits = replay.all_splits();
    see(site, changes(observed) ? expected_with(changes_, observed, site) : expected_of(observed, site));
}

}  // namespace tilescope
