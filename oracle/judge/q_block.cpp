#include "oracle/judge/q_block.h"

#include <array>
#include <utility>

#include "dump/recording/visible_tiles.h"
#include "dump/schema/semantics.h"
#include "oracle/replay/drift.h"

namespace tilescope {

namespace {

/// Computed from what the KV tiles before left.
constexpr std::array running_stages = {Stage::m, Stage::p, Stage::l, Stage::acc};
constexpr std::array output_stages = {Stage::o, Stage::lse};

/// The estimate of a stage that the tile's replay computed.
const Estimate& of(const TileEstimates& tile, Stage stage) {
    switch (stage) {
        case Stage::s:
            return tile.s;
        case Stage::m:
            return tile.m;
        case Stage::p:
            return tile.p;
        case Stage::l:
            return tile.l;
        default:
            return tile.acc;
    }
}

}  // namespace

void KvAtHand::move_to(std::int64_t kv_tile, const Plan& plan, const HeadCall& call,
                       const HeadInputs& inputs) {
    if (kv_tile == kv_tile_) return;
    const std::int64_t first = kv_tile * call.problem.block_n;
    const std::int64_t keys = tile_extent(call.problem, Stage::k, {0, 0, 0, kv_tile}).rows;
    k_ = staged_operand(call, Stage::k, first, inputs.k(first, keys), plan.has(Stage::k));
    const bool needs_v = plan.has(Stage::v) || plan.last >= Stage::acc;
    if (needs_v) v_ = staged_operand(call, Stage::v, first, inputs.v(first, keys), plan.has(Stage::v));
    is_k_packed_ = is_v_packed_ = false;
    kv_tile_ = kv_tile;
}

const Packed& KvAtHand::k_packed() {
    if (!std::exchange(is_k_packed_, true)) k_packed_.pack(k_.natural.value, true);
    return k_packed_;
}

const Packed& KvAtHand::v_packed() {
    if (!std::exchange(is_v_packed_, true)) v_packed_.pack(v_.natural.value, false);
    return v_packed_;
}

QBlockJudge::QBlockJudge(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial,
                         KvAtHand& kv)
    : plan_(plan),
      id_(q_block),
      judge_(plan, q_block.batch, q_block.head, pass, partial),
      call_(judge_.call()),
      problem_(call_.problem),
      exact_call_(call_),
      inputs_(plan.inputs.get(q_block.batch, problem_.head_kv(q_block.head))),
      kv_(kv),
      spreads_(call_, q_block.q_block, tile_extent(problem_, Stage::q, q_block).rows),
      local_(call_, q_block.q_block, plan.last, Replay::Source::stages),
      exact_(exact_call_, q_block.q_block, plan.last, Replay::Source::inputs) {
    exact_call_.bounds = pass == Pass::inherited || plan.other != nullptr;
    const std::int64_t first = id_.q_block * problem_.block_m;
    const std::int64_t rows = tile_extent(problem_, Stage::q, tile(0)).rows;
    q_ = staged_operand(call_, Stage::q, first,
                        load_input(plan.recording, Input::q, id_.batch, id_.head, first, rows));
    q_staged_ = q_.natural;
    if (plan.other != nullptr)
        exact_other_.emplace(*judge_.other_call(), id_.q_block, plan.last, Replay::Source::inputs);
}

TileId QBlockJudge::tile_in_order(std::int64_t i) const {
    return tile(kv_tile_in_order(problem_, plan_.recording.units().kv_order, i));
}

void QBlockJudge::begin() {
    judge_q();
    q_norms_.take(q_staged_.value);
    // Running statistics depend on the tiles before them, outputs on all tiles.
    needed_ = judge_.has_any(output_stages, tile(0)) ? kv_tiles() : 0;
    for (std::int64_t i = kv_tiles(); needed_ == 0 && i > 0; --i) {
        if (judge_.has_any(running_stages, tile_in_order(i - 1))) needed_ = i;
    }
}

void QBlockJudge::judge_kv_tile_in_order(std::int64_t i) {
    const TileId id = tile_in_order(i);
    const bool runs = i < needed_ && tile_is_seen(plan_.recording, problem_, id);
    if (runs || judge_.has_any(forward_tile_stages, id)) judge_kv_tile(id.kv_tile);
}

void QBlockJudge::end() {
    judge_outputs();
}

void QBlockJudge::judge_q() {
    if (!plan_.has(Stage::q)) return;
    const std::optional<MatrixF> got = load_tile(plan_.recording, problem_, Stage::q, tile(0));
    judge_.compare(Stage::q, tile(0), got, q_.expected, &q_.expected, nullptr);
    if (got) q_staged_ = dumped_operand(call_, Stage::q, id_.q_block * problem_.block_m, q_, *got);
}

void QBlockJudge::judge_kv_tile(std::int64_t kv_tile) {
    const TileId id = tile(kv_tile);
    const std::int64_t first_key = kv_tile * problem_.block_n;
    kv_.move_to(kv_tile, plan_, call_, *inputs_);
    const StagedOperand& k = kv_.k();
    const StagedOperand& v = kv_.v();
    const bool needs_v = v.natural.value.size() > 0;
    const DumpedTile dumped = judge_.load(forward_tile_stages, id);
    const auto& k_dumped = of(dumped, Stage::k);
    const auto& v_dumped = of(dumped, Stage::v);
    const Packed* const k_packed = k_dumped ? nullptr : &kv_.k_packed();
    const Packed* const v_packed = v_dumped || !needs_v ? nullptr : &kv_.v_packed();
    TileOperands from_inputs{
        q_.natural, k.natural, v.natural, {plan_.has(Stage::q) ? nullptr : &q_norms_, k_packed}, v_packed};
    const auto estimate = [&](const TileEstimates& tile, Stage stage) -> const Estimate& {
        return stage == Stage::k ? k.expected : stage == Stage::v ? v.expected : of(tile, stage);
    };

    if (plan_.other != nullptr) {
        TileEstimates mine = exact_.step(kv_tile, from_inputs, {});
        spreads_.add(kv_tile, from_inputs, dumped, mine);
        const TileEstimates theirs = exact_other_->step(kv_tile, from_inputs, {});
        for (const Stage stage : forward_tile_stages) {
            if (!plan_.has(stage)) continue;
            judge_.compare(stage, id, of(dumped, stage), estimate(mine, stage), &estimate(theirs, stage),
                           nullptr);
        }
        return;
    }

    const Operand k_staged = k_dumped ? dumped_operand(call_, Stage::k, first_key, k, *k_dumped) : Operand();
    const Operand v_staged = v_dumped ? dumped_operand(call_, Stage::v, first_key, v, *v_dumped) : Operand();
    const TileOperands staged{q_staged_,
                              k_dumped ? k_staged : k.natural,
                              v_dumped ? v_staged : v.natural,
                              {&q_norms_, k_packed},
                              v_packed};
    TileEstimates local = local_.step(kv_tile, staged, dumped);
    spreads_.add(kv_tile, staged, dumped, local);
    std::optional<TileEstimates> exact;
    if (!plan_.has(Stage::q) && !k_dumped) from_inputs.scores = &local.s;
    if (judge_.pass() == Pass::inherited || plan_.drift) exact = exact_.step(kv_tile, from_inputs, dumped);

    for (const Stage stage : forward_tile_stages) {
        if (!plan_.has(stage)) continue;
        const bool inherits = judge_.pass() == Pass::inherited && !is_operand(stage);
        const Estimate* end_to_end = inherits ? &of(*exact, stage) : nullptr;
        judge_.compare(stage, id, of(dumped, stage), estimate(local, stage), nullptr, end_to_end);
    }
    if (plan_.drift) add_drift(kv_tile, dumped);
}

void QBlockJudge::judge_outputs() {
    const auto judge_output = [&](Stage stage, auto compute) {
        if (!plan_.has(stage)) return;
        const std::optional<MatrixF> got = load_tile(plan_.recording, problem_, stage, tile(0));
        if (plan_.other != nullptr) {
            const Estimate theirs = compute(*exact_other_);
            judge_.compare(stage, tile(0), got, compute(exact_), &theirs, nullptr);
        } else {
            const bool inherits = judge_.pass() == Pass::inherited;
            const Estimate exact = inherits ? compute(exact_) : Estimate();
            judge_.compare(stage, tile(0), got, compute(local_), nullptr, inherits ? &exact : nullptr);
        }
    };
    judge_output(Stage::o, [&](const Replay& replay) {
        Estimate o = replay.output();
        spreads_.add_output(o);
        return o;
    });
    judge_output(Stage::lse, [](const Replay& replay) { return replay.log_sum_exp(); });
}

void QBlockJudge::add_drift(std::int64_t kv_tile, const DumpedTile& dumped) {
    const RunningState& exact = exact_.state();
    Drift& drift = judge_.partial().drift[std::size_t(kv_tile)];
    const auto add = [&](Stage stage, double& largest) {
        const auto& got = of(dumped, stage);
        if (!got) return;
        const DumpFactor factor = judge_.factor_of(stage, tile(kv_tile));
        for (Eigen::Index row = 0; row < got->rows(); ++row) {
            const double of_row = drift_of_row(call_.units, stage, *got, factor, exact, row);
            if (of_row > largest) largest = of_row;
        }
    };
    add(Stage::m, drift.m);
    add(Stage::l, drift.l);
    add(Stage::acc, drift.acc);
}

}  // namespace tilescope
