#include "oracle/heatmap/row_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dump/recording/visible_tiles.h"
#include "dump/schema/semantics.h"
#include "oracle/heatmap/colour.h"
#include "oracle/heatmap/drift_rows.h"
#include "oracle/heatmap/quantity.h"
#include "oracle/judge/observe.h"
#include "oracle/replay/drift.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr float not_there = std::numeric_limits<float>::quiet_NaN();
constexpr std::array running_stages = {Stage::m, Stage::l, Stage::acc};
constexpr std::array traced = {Stage::s, Stage::m, Stage::p, Stage::l, Stage::acc, Stage::dp, Stage::ds};

/// Smallest and largest of the values that are finite.
struct Extent {
    double low = unlimited;
    double high = -unlimited;

    void add(const ElementValue& value) {
        if (value.kind != Kind::finite) return;
        low = std::min(low, value.value);
        high = std::max(high, value.value);
    }
    double first() const { return low <= high ? low : std::numeric_limits<double>::quiet_NaN(); }
    double last() const { return low <= high ? high : std::numeric_limits<double>::quiet_NaN(); }
};

TracePoint point_of(const ObservedTile& tile, Eigen::Index row) {
    TracePoint point;
    point.captured = true;
    Extent dumped;
    Extent expected;
    for (Eigen::Index col = 0; col < tile.got.cols(); ++col) {
        const ElementValue got = value_of(tile, Quantity::dumped, row, col);
        const ElementValue ratio = value_of(tile, Quantity::over_budget, row, col);
        dumped.add(got);
        expected.add(value_of(tile, Quantity::expected, row, col));
        point.kinds |= flag_of(got.kind);
        const bool bad = is_divergence(judged_element(tile, row, col).finding);
        point.judged_bad |= bad;
        if (ratio.kind == Kind::finite)
            point.over_budget = std::max(point.over_budget, ratio.value);
        else if (bad)
            point.over_budget = unlimited;
    }
    point.dumped_low = dumped.first();
    point.dumped_high = dumped.last();
    point.expected_low = expected.first();
    point.expected_high = expected.last();
    return point;
}

/// The drift of one query block.
class BlockDrift {
 public:
    BlockDrift(const Recording& recording, const HeadCall& call, const HeadInputs& inputs, std::int64_t batch,
               std::int64_t head, std::int64_t q_block)
        : recording_(recording),
          call_(call),
          inputs_(inputs),
          first_({batch, head, q_block, 0}),
          exact_(call, q_block, Stage::acc, Replay::Source::inputs) {
        const std::int64_t row = q_block * call.problem.block_m;
        const std::int64_t rows = tile_extent(call.problem, Stage::q, first_).rows;
        q_ = staged_operand(call, Stage::q, row, load_input(recording, Input::q, batch, head, row, rows),
                            false)
                 .natural;
    }

    void step(std::int64_t kv_tile, DriftRows& out) {
        const Problem& problem = call_.problem;
        TileId tile = first_;
        tile.kv_tile = kv_tile;
        DumpedTile dumped;
        for (const Stage stage : running_stages) {
            if (recording_.has_stage(stage))
                dumped[static_cast<std::size_t>(stage)] = load_tile(recording_, problem, stage, tile);
        }
        const bool any =
            std::ranges::any_of(running_stages, [&](Stage stage) { return of(dumped, stage).has_value(); });
        if (!any && !tile_is_seen(recording_, problem, tile)) return;
        const std::int64_t key = kv_tile * problem.block_n;
        const std::int64_t keys = tile_extent(problem, Stage::k, tile).rows;
        const Operand k = staged_operand(call_, Stage::k, key, inputs_.k(key, keys), false).natural;
        const Operand v = staged_operand(call_, Stage::v, key, inputs_.v(key, keys), false).natural;
        exact_.step(kv_tile, {q_, k, v}, dumped);
        for (Eigen::Index row = 0; row < exact_.state().m.value.rows(); ++row)
            add_row(tile, row, dumped, out);
    }

 private:
    void add_row(const TileId& tile, Eigen::Index row, const DumpedTile& dumped, DriftRows& out) const {
        const Eigen::Index to = tile.q_block * call_.problem.block_m + row;
        const auto add = [&](Stage stage, MatrixF& rows) {
            const auto& got = of(dumped, stage);
            if (!got) return;
            const DumpFactor factor =
                dump_factor(call_, stage, tile.q_block * call_.problem.block_m,
                            tile.kv_tile * call_.problem.block_n, got->rows(), got->cols());
            rows(to, tile.kv_tile) =
                float(drift_of_row(call_.units, stage, *got, factor, exact_.state(), row));
        };
        add(Stage::m, out.m);
        add(Stage::l, out.l);
        add(Stage::acc, out.acc);
    }

    const Recording& recording_;
    const HeadCall& call_;
    const HeadInputs& inputs_;
    TileId first_;
    Operand q_;
    Replay exact_;
};

}  // namespace

RowTrace trace_row(const Recording& recording, const Recording* other, const JudgeOptions& options,
                   std::int64_t batch, std::int64_t head, std::int64_t row) {
    const Problem& problem = recording.problem();
    RowTrace trace{batch, head, row, {}};
    for (const Stage stage : traced)
        trace.stages[static_cast<std::size_t>(stage)].resize(std::size_t(problem.kv_tiles()));
    for (const StageInfo& info : stages_of(problem)) {
        if (is_named(info.stage) && info.row_axis == Axis::query && info.per_kv_tile)
            trace.stages[static_cast<std::size_t>(info.stage)].resize(std::size_t(problem.kv_tiles()));
    }
    const std::int64_t q_block = row / problem.block_m;
    observe_tiles(recording, other, options, batch, head, q_block, [&](const ObservedTile& tile) {
        auto& points = trace.stages[static_cast<std::size_t>(tile.context.stage)];
        const Eigen::Index at = row - tile.context.first_row;
        if (points.empty() || at >= tile.got.rows()) return;
        points[std::size_t(tile.context.tile.kv_tile)] = point_of(tile, at);
    });
    return trace;
}

DriftRows drift_rows(const Recording& recording, std::int64_t batch, std::int64_t head, double confidence,
                     const std::function<void(std::int64_t, std::int64_t)>& progress) {
    HeadCall call = make_head_call(recording, rounding_model_of(recording, confidence), batch, head);
    call.bounds = false;
    HeadInputCache cache(recording);
    const auto inputs = cache.get(batch, recording.problem().head_kv(head));
    const Problem& whole = recording.problem();
    const MatrixF nothing = MatrixF::Constant(whole.seqlen_q, whole.kv_tiles(), not_there);
    DriftRows out{nothing, nothing, nothing};
    const auto captured = [&](Stage stage) { return recording.has_stage(stage); };
    if (!captured(Stage::m) && !captured(Stage::l) && !captured(Stage::acc)) return out;
    const KvOrder order = recording.units().kv_order;
    const std::int64_t blocks = call.problem.q_blocks();
    const std::int64_t tiles = call.problem.kv_tiles();
    for (std::int64_t q_block = 0; q_block < blocks; ++q_block) {
        BlockDrift drift(recording, call, *inputs, batch, head, q_block);
        for (std::int64_t i = 0; i < tiles; ++i) drift.step(kv_tile_in_order(call.problem, order, i), out);
        if (progress) progress(q_block + 1, blocks);
    }
    return out;
}

std::int64_t knee_of(const std::vector<double>& drift) {
    constexpr double sharp = 8;
    std::int64_t knee = -1;
    double largest = sharp;
    double before = 0;
    for (std::size_t i = 0; i < drift.size(); ++i) {
        if (std::isnan(drift[i])) continue;
        const double ratio = before > 0 ? drift[i] / before : 0;
        if (ratio >= largest) {
            largest = ratio;
            knee = std::int64_t(i);
        }
        before = std::max(before, drift[i]);
    }
    return knee;
}

}  // namespace tilescope
