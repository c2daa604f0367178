#include "oracle/judge/gradient_judge.h"

#include <optional>
#include <vector>

#include "oracle/formula/gradient_sum.h"
#include "oracle/judge/spread.h"
#include "oracle/judge/tile_judge.h"

namespace tilescope {

namespace {

const Estimate& of(const GradientTile& tile, Stage stage) {
    switch (stage) {
        case Stage::s:
            return tile.s;
        case Stage::p:
            return tile.p;
        case Stage::dp:
            return tile.dp;
        default:
            return tile.ds;
    }
}

/// A query block and what is computed along its row of tiles, from one source.
class RowOfTiles {
 public:
    RowOfTiles(const HeadCall& call, const GradientRows& rows, Replay::Source source)
        : call_(call),
          rows_(rows),
          source_(source),
          dq_(Stage::dq, rows.q.value.rows(), rows.q.value.cols()) {}

    GradientTile step(const TileId& id, const Operand& k, const Operand& v, const DumpedTile& dumped) {
        GradientTile tile = replay_gradient_tile(call_, id, rows_, k, v, dumped, source_);
        dq_.add(call_, tile.ds_operand, tile.scores.value, gradient_operand(call_, Stage::k, k));
        return tile;
    }
    Estimate dq() const { return dq_.gradient(call_); }

 private:
    const HeadCall& call_;
    const GradientRows& rows_;
    Replay::Source source_;
    GradientSum dq_;
};

/// Judges one query block.
class RowJudge {
 public:
    RowJudge(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial)
        : plan_(plan),
          id_(q_block),
          judge_(plan, q_block.batch, q_block.head, pass, partial),
          problem_(judge_.problem()),
          inputs_(plan.inputs.get(q_block.batch, problem_.head_kv(q_block.head))),
          rows_(load_gradient_rows(plan.recording, judge_.call(), q_block, plan.other)),
          // Two recordings are compared end to end.
          first_(judge_.call(), plan.other != nullptr ? rows_.from_inputs : rows_.from_stages,
                 plan.other != nullptr ? Replay::Source::inputs : Replay::Source::stages) {
        if (plan.other != nullptr)
            second_.emplace(*judge_.other_call(), rows_.from_inputs, Replay::Source::inputs);
        else if (pass == Pass::inherited)
            second_.emplace(judge_.call(), rows_.from_inputs, Replay::Source::inputs);
    }

    void run() {
        judge_rows();
        for (std::int64_t kv_tile = 0; kv_tile < problem_.kv_tiles(); ++kv_tile) {
            const TileId id{id_.batch, id_.head, id_.q_block, kv_tile};
            const bool adds =
                plan_.has(Stage::dq) && takes_part(plan_.recording, problem_, gradient_tile_stages, id);
            if (adds || judge_.has_any(gradient_tile_stages, id)) judge_tile(id);
            if (judge_.is_ended()) return;
        }
        if (!plan_.has(Stage::dq)) return;
        const Estimate second = second_ ? second_->dq() : Estimate();
        compare(Stage::dq, id_, load(Stage::dq), first_.dq(), second_ ? &second : nullptr);
    }

 private:
    std::optional<MatrixF> load(Stage stage) const {
        return load_tile(plan_.recording, problem_, stage, id_);
    }

    /// `second` is what the other recording expects, or what is expected end to end.
    void compare(Stage stage, const TileId& id, const std::optional<MatrixF>& got, const Estimate& expected,
                 const Estimate* second) {
        const bool pair = plan_.other != nullptr;
        judge_.compare(stage, id, got, expected, pair ? second : nullptr, pair ? nullptr : second);
    }

    void judge_rows() {
        const bool pair = plan_.other != nullptr;
        const auto judge = [&](Stage stage, const Estimate& expected) {
            if (plan_.has(stage)) compare(stage, id_, load(stage), expected, pair ? &expected : nullptr);
        };
        judge(Stage::q, rows_.q.expected);
        judge(Stage::dout, rows_.dout);
        if (!plan_.has(Stage::delta)) return;
        const bool has_o = plan_.recording.has_input(Input::o);
        const Estimate& end_to_end = has_o ? rows_.from_inputs.delta : rows_.delta;
        compare(Stage::delta, id_, load(Stage::delta), pair ? end_to_end : rows_.delta,
                second_ ? &end_to_end : nullptr);
    }

    void judge_tile(const TileId& id) {
        const DumpedTile dumped = judge_.load(gradient_tile_stages, id);
        const LoadedGradientKeys keys = load_gradient_keys(judge_.call(), *inputs_, id, dumped);
        const bool pair = plan_.other != nullptr;
        const Operand& k = pair ? keys.k.natural : keys.k_from_stages;
        GradientTile first = first_.step(id, k, pair ? keys.v.natural : keys.v_from_stages, dumped);
        first.s.spread = spread_of_scores(judge_.call(), (pair ? rows_.from_inputs : rows_.from_stages).q, k);
        std::optional<GradientTile> second;
        if (second_) second = second_->step(id, keys.k.natural, keys.v.natural, dumped);
        for (const Stage stage : gradient_tile_stages) {
            if (!plan_.has(stage)) continue;
            if (is_operand(stage)) {
                const Estimate& expected = stage == Stage::k ? keys.k.expected : keys.v.expected;
                compare(stage, id, of(dumped, stage), expected, pair ? &expected : nullptr);
            } else {
                compare(stage, id, of(dumped, stage), of(first, stage),
                        second ? &of(*second, stage) : nullptr);
            }
        }
    }

    const Plan& plan_;
    TileId id_;
    TileJudge judge_;
    const Problem& problem_;
    std::shared_ptr<const HeadInputs> inputs_;
    LoadedGradientRows rows_;
    RowOfTiles first_;
    std::optional<RowOfTiles> second_;
};

/// dk and dv of a KV tile, from one source.
struct KeyGradients {
    GradientSum dk;
    GradientSum dv;

    KeyGradients(const Problem& problem, std::int64_t keys)
        : dk(Stage::dk, keys, problem.head_dim), dv(Stage::dv, keys, problem.head_dim_v) {}

    void add(const HeadCall& call, const GradientTile& tile, const GradientRows& rows) {
        const auto transposed = [](const Estimate& estimate) {
            return Estimate{estimate.value.transpose(), estimate.error.transpose()};
        };
        const Matrix scores = tile.scores.value.transpose();
        dk.add(call, transposed(tile.ds_operand), scores, gradient_operand(call, Stage::q, rows.q));
        dv.add(call, transposed(tile.p_operand), scores, {rows.dout});
    }
};

}  // namespace

void judge_gradient_rows(const Plan& plan, const TileId& q_block, Pass pass, JudgedPart& partial) {
    RowJudge(plan, q_block, pass, partial).run();
}

void judge_gradient_keys(const Plan& plan, const TileId& tile, Pass pass, JudgedPart& partial) {
    const HeadRange heads = query_heads(plan.problem(), Stage::dk, tile.head);
    const bool pair = plan.other != nullptr;
    std::vector<TileJudge> judges;
    for (std::int64_t i = 0; i < heads.size(); ++i)
        judges.emplace_back(plan, tile.batch, heads.at(i), pass, partial);
    const Problem& problem = judges.front().problem();
    const std::int64_t keys = tile_extent(problem, Stage::dk, tile).rows;
    KeyGradients first(problem, keys);
    std::optional<KeyGradients> second;
    if (pair || pass == Pass::inherited) second.emplace(problem, keys);

    const auto inputs = plan.inputs.get(tile.batch, problem.head_kv(heads.first));
    for (std::int64_t i = 0; i < heads.size(); ++i) {
        const std::int64_t head = heads.at(i);
        const TileJudge& judge = judges[std::size_t(i)];
        const HeadCall& second_call = pair ? *judge.other_call() : judge.call();
        for (std::int64_t q_block = 0; q_block < problem.q_blocks(); ++q_block) {
            const TileId id{tile.batch, head, q_block, tile.kv_tile};
            if (!takes_part(plan.recording, problem, gradient_tile_stages, id)) continue;
            const DumpedTile dumped = pair ? DumpedTile() : judge.load(gradient_tile_stages, id);
            const LoadedGradientKeys k_and_v = load_gradient_keys(judge.call(), *inputs, id, dumped);
            const LoadedGradientRows rows = load_gradient_rows(plan.recording, judge.call(), id, plan.other);
            const GradientRows& used = pair ? rows.from_inputs : rows.from_stages;
            first.add(
                judge.call(),
                replay_gradient_tile(judge.call(), id, used, k_and_v.k_from_stages, k_and_v.v_from_stages,
                                     dumped, pair ? Replay::Source::inputs : Replay::Source::stages),
                used);
            if (!second) continue;
            second->add(second_call,
                        replay_gradient_tile(second_call, id, rows.from_inputs, k_and_v.k.natural,
                                             k_and_v.v.natural, {}, Replay::Source::inputs),
                        rows.from_inputs);
        }
    }
    const HeadCall& call = judges.front().call();
    const HeadCall& second_call = pair ? *judges.front().other_call() : call;
    const auto compare = [&](Stage stage, GradientSum KeyGradients::*sum) {
        if (!plan.has(stage)) return;
        const Estimate other = second ? ((*second).*sum).gradient(second_call) : Estimate();
        const Estimate* there = second ? &other : nullptr;
        judges.front().compare(stage, tile, load_tile(plan.recording, problem, stage, tile),
                               (first.*sum).gradient(call), pair ? there : nullptr, pair ? nullptr : there);
    };
    compare(Stage::dk, &KeyGradients::dk);
    compare(Stage::dv, &KeyGradients::dv);
}

}  // namespace tilescope
