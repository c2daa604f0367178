// The walk through a backward pass: along the KV tiles of a query block, or for dk and dv along the query blocks of a KV
// tile.

#include <array>
#include <numbers>

#include "oracle/causes/walk.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// Stages of a tile that others are computed from.
constexpr std::array inner_stages = {Stage::s, Stage::p, Stage::dp, Stage::ds};

Estimate transposed(const Estimate& estimate) {
    return {estimate.value.transpose(), estimate.error.transpose(), {}};
}

/// What the tile adds to the gradient.
GradientPart part_of_tile(const HeadCall& call, Stage gradient, const TileId& id, const GradientTile& tile,
                          const GradientRows& rows, const Operand& k) {
    const bool of_p = gradient == Stage::dv;
    const Estimate& a = of_p ? tile.p_operand : tile.ds_operand;
    const Estimate& uncast = of_p ? tile.uncast_p : tile.uncast_ds;
    if (gradient == Stage::dq) return {id, a, tile.scores.value, uncast, gradient_operand(call, Stage::k, k)};
    const Operand b = gradient == Stage::dk ? gradient_operand(call, Stage::q, rows.q) : Operand{rows.dout};
    return {id, transposed(a), tile.scores.value.transpose(), transposed(uncast), b};
}

}  // namespace

void ChangedReplay::set_tile(std::int64_t q_block, std::int64_t kv_tile) {
    const Problem& problem = site_.call->problem;
    site_.id.q_block = q_block;
    site_.id.kv_tile = kv_tile;
    site_.first_row = q_block * problem.block_m;
    site_.first_key = kv_tile * problem.block_n;
}

/// What a query block brings along, from what was dumped of it.
GradientRows ChangedReplay::load_rows() {
    const TileId id = site_.id;
    site_.id.kv_tile = 0;
    const auto given = [&](Input input) {
        return load_input(world_.recording(), input, id.batch, id.head, site_.first_row, site_.rows());
    };
    GradientRows rows;
    rows.q = load_operand(Stage::q, site_.first_row, id.head, site_.rows());
    site_.dout = load_operand(Stage::dout, site_.first_row, id.head, site_.rows());
    if (world_.recording().has_input(Input::o)) site_.o = {given(Input::o), 0};
    rows.dout = site_.dout.value;
    const double lse_unit = site_.call->units.lse_log_base == LogBase::two ? std::numbers::ln2 : 1;
    rows.lse = {given(Input::lse) * lse_unit, Matrix::Zero(site_.rows(), 1), {}};
    rows.delta = expected_delta();
    if (const auto values = dumped(Stage::delta)) rows.delta = settle(rows.delta, *values);
    site_.id.kv_tile = id.kv_tile;
    return rows;
}

/// From the rows that were loaded last.
Estimate ChangedReplay::expected_delta() {
    SearchedTile site = bare_site();
    site.dout = site_.dout;
    site.o = site_.o;
    return changes(Stage::delta) ? expected_with(changes_, Stage::delta, site)
                                 : expected_of(Stage::delta, site);
}

SearchedTile ChangedReplay::site_at(Stage stage, const GradientInputs& in, const GradientTile& tile) const {
    SearchedTile site = bare_site();
    site.begins = site_.begins;
    site.m = in.rows.lse;
    site.before.m = in.rows.lse;
    if (stage == Stage::s || stage == Stage::p) {
        site.q = in.rows.q;
        site.k = in.k;
        site.k_before = k_before_;
        site.p_of_tile_before = p_of_tile_before_;
    }
    if (stage != Stage::s) site.dumped_s = tile.dumped_s;
    if (stage == Stage::dp) {
        site.dout = {in.rows.dout, 0};
        site.v = in.v;
    }
    if (stage != Stage::ds) return site;
    site.p = *in.p;
    site.dp = *in.dp;
    site.delta = in.rows.delta;
    return site;
}

/// Of the tile that site_ is at.
GradientTile ChangedReplay::gradient_tile(Stage observed, const GradientRows& rows, const See& see) {
    const std::int64_t head_kv = site_.call->problem.head_kv(site_.id.head);
    const auto load = [&](Stage stage) {
        return load_operand(stage, site_.first_key, head_kv, site_.keys());
    };
    site_.k = load(Stage::k);
    const Operand v = load(Stage::v);
    DumpedTile values;
    for (const Stage stage : inner_stages) values[static_cast<std::size_t>(stage)] = dumped(stage);
    const auto formula = [&](Stage stage, const GradientInputs& in, const GradientTile& tile) {
        spend(effort_of(stage, in.call.problem));
        const bool is_changed = changes(stage);
        if (!is_changed && stage != observed) return expected_of(stage, in);
        const SearchedTile site = site_at(stage, in, tile);
        Estimate estimate = is_changed ? expected_with(changes_, stage, site) : expected_of(stage, in);
        if (stage == observed) see(site, estimate);
        return estimate;
    };
    GradientTile tile = replay_gradient_tile(*site_.call, site_.id, rows, site_.k, v, values,
                                             Replay::Source::stages, formula);
    k_before_.topRows(site_.k.value.rows()) += site_.k.value;
    p_of_tile_before_ = tile.p_operand;
    return tile;
}

void ChangedReplay::run_rows(Stage observed, const See& see) {
    const Problem& problem = site_.call->problem;
    if (is_of_queries(observed)) {
        load_operand(observed, site_.first_row, site_.id.head, site_.rows());
        return see(site_, expected_operand(observed));
    }
    const GradientRows rows = is_operand(observed) ? GradientRows() : load_rows();
    if (observed == Stage::delta) {
        SearchedTile site = bare_site();
        site.dout = site_.dout;
        site.o = site_.o;
        return see(site, expected_delta());
    }
    k_before_ = Matrix::Zero(problem.block_n, problem.head_dim);
    site_.begins = true;
    GradientParts parts;
    for (std::int64_t i = 0; i < problem.kv_tiles(); ++i) {
        set_tile(block_.q_block, kv_tile_in_order(problem, world_.recording().units().kv_order, i));
        world_.check();
        if (is_passed_over(site_.id, observed)) continue;
        if (is_operand(observed)) {
            load_operand(observed, site_.first_key, problem.head_kv(site_.id.head), site_.keys());
            see(site_, expected_operand(observed));
            continue;
        }
        const GradientTile tile = gradient_tile(observed, rows, see);
        site_.begins = false;
        if (observed == Stage::dq)
            parts.push_back(part_of_tile(*site_.call, observed, site_.id, tile, rows, site_.k));
    }
    if (observed == Stage::dq) see_gradient(observed, std::move(parts), see);
}

void ChangedReplay::run_keys(Stage observed, const See& see) {
    GradientParts parts;
    const HeadRange heads = query_heads(site_.call->problem, observed, block_.head);
    for (std::int64_t i = 0; i < heads.size(); ++i) {
        const std::int64_t head = heads.at(i);
        site_.id.head = head;
        site_.call = world_.call(block_.batch, head);
        const Problem& problem = site_.call->problem;
        k_before_ = Matrix::Zero(problem.block_n, problem.head_dim);
        for (std::int64_t q_block = 0; q_block < problem.q_blocks(); ++q_block) {
            set_tile(q_block, block_.kv_tile);
            world_.check();
            if (is_passed_over(site_.id, observed)) continue;
            const GradientRows rows = load_rows();
            const GradientTile tile = gradient_tile(observed, rows, see);
            parts.push_back(part_of_tile(*site_.call, observed, site_.id, tile, rows, site_.k));
        }
    }
    see_gradient(observed, std::move(parts), see);
}

/// The sum of the parts, once all of them are known.
void ChangedReplay::see_gradient(Stage observed, GradientParts parts, const See& see) {
    site_.id = block_;
    site_.call = world_.call(block_.batch, query_heads(site_.call->problem, observed, block_.head).first);
    site_.first_row = block_.q_block * site_.call->problem.block_m;
    site_.first_key = block_.kv_tile * site_.call->problem.block_n;
    SearchedTile site = bare_site();
    site.begins = true;
    site.parts = std::make_shared<const GradientParts>(std::move(parts));
    see(site, changes(observed) ? expected_with(changes_, observed, site) : expected_of(observed, site));
}

}  // namespace tilescope
