#include "oracle/q_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/budget.h"
#include "oracle/semantics.h"

namespace tilescope {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

constexpr std::array kv_stages = {Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc};

const std::optional<MatrixF>& of(const DumpedTile& dumped, Stage stage) {
    return dumped[static_cast<std::size_t>(stage)];
}

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

bool is_operand(Stage stage) {
    return stage == Stage::q || stage == Stage::k || stage == Stage::v;
}

/// Largest deviation of `got`, in natural units, from `exact`, each relative to `scale`; infinite where only
/// `got` is not finite.
template <class Scale>
double deviation(const MatrixF& got, const DumpFactor& factor, const Matrix& exact, Scale scale) {
    double largest = 0;
    for (Eigen::Index i = 0; i < exact.rows(); ++i) {
        const double row_scale = scale(i);
        for (Eigen::Index j = 0; j < exact.cols(); ++j) {
            if (is_unwritten(got(i, j)) || !std::isfinite(exact(i, j))) continue;
            const double difference = std::abs(double(got(i, j)) / factor.at(i, j) - exact(i, j));
            const double relative = difference == 0 ? 0 : difference / row_scale;
            largest = std::isnan(relative) ? infinity : std::max(largest, relative);
        }
    }
    return largest;
}

}  // namespace

QBlockJudge::QBlockJudge(const Plan& plan, std::int64_t batch, std::int64_t head, std::int64_t q_block,
                         Pass pass, Partial& partial)
    : plan_(plan),
      pass_(pass),
      call_(make_head_call(plan.recording, plan.rounding, batch, head)),
      exact_call_(call_),
      problem_(call_.problem),
      batch_(batch),
      head_(head),
      q_block_(q_block),
      partial_(partial),
      inputs_(plan.inputs.get(batch, problem_.head_kv(head))),
      local_(call_, q_block, plan.last, Replay::Source::stages),
      exact_(exact_call_, q_block, plan.last, Replay::Source::inputs) {
    exact_call_.bounds = pass == Pass::inherited || plan.other != nullptr;
    const std::int64_t first = q_block * problem_.block_m;
    const std::int64_t rows = tile_extent(problem_, Stage::q, tile(0)).rows;
    q_ = staged_operand(call_, Stage::q, first,
                        load_input(plan.recording, Input::q, batch, head, first, rows));
    q_staged_ = q_.natural;
    if (plan.other == nullptr) return;
    other_call_ = make_head_call(*plan.other, plan.rounding, batch, head);
    exact_other_.emplace(*other_call_, q_block, plan.last, Replay::Source::inputs);
}

void QBlockJudge::run() {
    judge_q();
    const std::int64_t tiles = problem_.kv_tiles();
    const bool reverse = plan_.recording.units().kv_order == KvOrder::reverse;
    for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t kv_tile = reverse ? tiles - 1 - i : i;
        const bool skip =
            nothing_at(kv_tile) && (plan_.last < Stage::m || !tile_is_visible(problem_, q_block_, kv_tile));
        if (skip) continue;
        judge_kv_tile(kv_tile);
    }
    judge_outputs();
}

/// Whether no stage has a tile here, captured or missing.
bool QBlockJudge::nothing_at(std::int64_t kv_tile) const {
    const auto& selection = plan_.recording.capture().selection;
    const bool visible = tile_is_visible(problem_, q_block_, kv_tile);
    return std::none_of(kv_stages.begin(), kv_stages.end(), [&](Stage stage) {
        if (!plan_.has(stage)) return false;
        const bool expected = visible && selection && selection->selects(stage, tile(kv_tile));
        return expected || plan_.recording.has_tile(stage, tile(kv_tile));
    });
}

/// Whether the tile was asked for, the kernel cannot do without it, and the run got to its end.
bool QBlockJudge::must_hold(const Recording& recording, Stage stage, const TileId& id) const {
    const CaptureSummary& capture = recording.capture();
    if (capture.ended != "completed" || !capture.selection || !capture.selection->selects(stage, id))
        return false;
    if (stage_info(stage).per_kv_tile) return tile_is_visible(problem_, q_block_, id.kv_tile);
    if (stage != Stage::q) return true;
    for (std::int64_t kv_tile = 0; kv_tile < problem_.kv_tiles(); ++kv_tile) {
        if (tile_is_visible(problem_, q_block_, kv_tile)) return true;
    }
    return false;
}

DumpedTile QBlockJudge::load(const Recording& recording, std::int64_t kv_tile) const {
    DumpedTile dumped;
    for (const Stage stage : kv_stages) {
        if (plan_.has(stage))
            dumped[static_cast<std::size_t>(stage)] = load_tile(recording, problem_, stage, tile(kv_tile));
    }
    return dumped;
}

DumpFactor QBlockJudge::factor_of(const HeadCall& call, Stage stage, const TileId& id) const {
    const TileShape extent = tile_extent(problem_, stage, id);
    return dump_factor(call, stage, q_block_ * problem_.block_m, id.kv_tile * problem_.block_n, extent.rows,
                       extent.cols);
}

void QBlockJudge::judge_q() {
    if (!plan_.has(Stage::q)) return;
    const std::optional<MatrixF> got = load_tile(plan_.recording, problem_, Stage::q, tile(0));
    if (plan_.other != nullptr) {
        compare_pair(Stage::q, tile(0), got, q_.expected, q_.expected);
        return;
    }
    compare(Stage::q, tile(0), got, q_.expected, nullptr);
    if (got) q_staged_ = dumped_operand(call_, Stage::q, q_block_ * problem_.block_m, q_, *got);
}

void QBlockJudge::judge_kv_tile(std::int64_t kv_tile) {
    const std::int64_t first_key = kv_tile * problem_.block_n;
    const std::int64_t keys = tile_extent(problem_, Stage::k, tile(kv_tile)).rows;
    const StagedOperand k = staged_operand(call_, Stage::k, first_key, inputs_->k.middleRows(first_key, keys),
                                           plan_.has(Stage::k));
    const bool needs_v = plan_.has(Stage::v) || plan_.last >= Stage::acc;
    const StagedOperand v = needs_v
                                ? staged_operand(call_, Stage::v, first_key,
                                                 inputs_->v.middleRows(first_key, keys), plan_.has(Stage::v))
                                : StagedOperand();
    const TileOperands from_inputs{q_.natural, k.natural, v.natural};
    const DumpedTile dumped = load(plan_.recording, kv_tile);
    const auto estimate = [&](const TileEstimates& tile, Stage stage) -> const Estimate& {
        return stage == Stage::k ? k.expected : stage == Stage::v ? v.expected : of(tile, stage);
    };

    if (plan_.other != nullptr) {
        const TileEstimates mine = exact_.step(kv_tile, from_inputs, {});
        const TileEstimates theirs = exact_other_->step(kv_tile, from_inputs, {});
        for (const Stage stage : kv_stages) {
            if (!plan_.has(stage)) continue;
            compare_pair(stage, tile(kv_tile), of(dumped, stage), estimate(mine, stage),
                         estimate(theirs, stage));
        }
        return;
    }

    const auto& k_dumped = of(dumped, Stage::k);
    const auto& v_dumped = of(dumped, Stage::v);
    const Operand k_staged = k_dumped ? dumped_operand(call_, Stage::k, first_key, k, *k_dumped) : Operand();
    const Operand v_staged = v_dumped ? dumped_operand(call_, Stage::v, first_key, v, *v_dumped) : Operand();
    const TileEstimates local = local_.step(
        kv_tile, {q_staged_, k_dumped ? k_staged : k.natural, v_dumped ? v_staged : v.natural}, dumped);
    std::optional<TileEstimates> exact;
    if (pass_ == Pass::inherited || plan_.drift) exact = exact_.step(kv_tile, from_inputs, dumped);

    for (const Stage stage : kv_stages) {
        if (!plan_.has(stage)) continue;
        const bool inherits = pass_ == Pass::inherited && !is_operand(stage);
        const Estimate* end_to_end = inherits ? &of(*exact, stage) : nullptr;
        compare(stage, tile(kv_tile), of(dumped, stage), estimate(local, stage), end_to_end);
    }
    if (plan_.drift) add_drift(kv_tile, dumped);
}

void QBlockJudge::judge_outputs() {
    const auto judge_output = [&](Stage stage, auto compute) {
        if (!plan_.has(stage)) return;
        const std::optional<MatrixF> got = load_tile(plan_.recording, problem_, stage, tile(0));
        if (plan_.other != nullptr) {
            compare_pair(stage, tile(0), got, compute(exact_), compute(*exact_other_));
        } else {
            const Estimate exact = pass_ == Pass::inherited ? compute(exact_) : Estimate();
            compare(stage, tile(0), got, compute(local_), pass_ == Pass::inherited ? &exact : nullptr);
        }
    };
    judge_output(Stage::o, [](const Replay& replay) { return replay.output(); });
    judge_output(Stage::lse, [](const Replay& replay) { return replay.log_sum_exp(); });
}

void QBlockJudge::compare(Stage stage, const TileId& id, const std::optional<MatrixF>& got,
                          const Estimate& expected, const Estimate* end_to_end) {
    TileContext context = tile_context(problem_, stage, id);
    context.expects_nan = is_operand(stage) || plan_.other != nullptr;
    if (!got) {
        if (must_hold(plan_.recording, stage, id)) count_missing(context);
        return;
    }
    // Operands must be exact copies: a tolerance given by hand is not for them.
    const CompareOptions exact_options{std::nullopt, std::nullopt, plan_.compare.top};
    const CompareOptions& options = is_operand(stage) ? exact_options : plan_.compare;
    const DumpFactor factor = factor_of(call_, stage, id);
    if (factor.is_one()) {
        if (observes()) plan_.observe(stage, id, *got, expected);
        compare_tile(context, *got, expected, end_to_end, options, partial_.tally(stage));
        return;
    }
    // Converting to the dump's units rounds the oracle's own value.
    const auto converted = [&](const Estimate& natural) {
        Estimate there = natural;
        for (Eigen::Index i = 0; i < there.value.rows(); ++i) {
            for (Eigen::Index j = 0; j < there.value.cols(); ++j) {
                const double by = factor.at(i, j);
                double& value = there.value(i, j);
                double& error = there.error(i, j);
                value *= by;
                if (error != 0 || !std::isinf(value)) error *= by;
                if (std::isfinite(value)) error += std::abs(value) * u_oracle;
            }
        }
        return there;
    };
    const Estimate expected_there = converted(expected);
    const Estimate end_to_end_there = end_to_end != nullptr ? converted(*end_to_end) : Estimate();
    if (observes()) plan_.observe(stage, id, *got, expected_there);
    compare_tile(context, *got, expected_there, end_to_end != nullptr ? &end_to_end_there : nullptr, options,
                 partial_.tally(stage));
}

void QBlockJudge::compare_pair(Stage stage, const TileId& id, const std::optional<MatrixF>& got,
                               const Estimate& mine, const Estimate& theirs) {
    const std::optional<MatrixF> other = load_tile(*plan_.other, problem_, stage, id);
    if (!got || !other) {
        const bool both_must = must_hold(plan_.recording, stage, id) && must_hold(*plan_.other, stage, id);
        if (both_must) count_missing(tile_context(problem_, stage, id));
        return;
    }
    const DumpFactor factor = factor_of(*other_call_, stage, id);
    // NaN keeps its payload, and with it whether the other one was written.
    Estimate expected{other->cast<double>(), mine.error + theirs.error};
    if (!factor.is_one()) {
        for (Eigen::Index i = 0; i < expected.value.rows(); ++i)
            for (Eigen::Index j = 0; j < expected.value.cols(); ++j) expected.value(i, j) /= factor.at(i, j);
    }
    expected.error = expected.error.array().isNaN().select(infinity, expected.error);
    compare(stage, id, got, expected, nullptr);
}

void QBlockJudge::count_missing(const TileContext& context) {
    count_missing_tile(context, tile_extent(problem_, context.stage, context.tile), plan_.compare,
                       partial_.tally(context.stage));
}

void QBlockJudge::add_drift(std::int64_t kv_tile, const DumpedTile& dumped) {
    const RunningState& exact = exact_.state();
    const auto one = [](Eigen::Index) { return 1.0; };
    const auto exact_l = [&](Eigen::Index row) { return sum_of_row(exact.l.value, row); };
    const auto largest_acc = [&](Eigen::Index row) {
        const auto magnitude = exact.acc.value.row(row).array().abs();
        return magnitude.isFinite().select(magnitude, 0).maxCoeff();
    };
    const TileId id = tile(kv_tile);
    Drift& drift = partial_.drift[std::size_t(kv_tile)];
    if (const auto& m = of(dumped, Stage::m))
        drift.m = std::max(drift.m, deviation(*m, factor_of(call_, Stage::m, id), exact.m.value, one));
    if (const auto& l = of(dumped, Stage::l))
        drift.l = std::max(drift.l, deviation(*l, factor_of(call_, Stage::l, id), exact.l.value, exact_l));
    if (const auto& acc = of(dumped, Stage::acc)) {
        drift.acc = std::max(drift.acc,
                             deviation(*acc, factor_of(call_, Stage::acc, id), exact.acc.value, largest_acc));
    }
}

}  // namespace tilescope
