#include "oracle/judge/references.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <utility>

#include "dump/schema/semantics.h"
#include "oracle/formula/budget.h"
#include "oracle/formula/head_call.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/judge/spread.h"
#include "oracle/judge/tally_bytes.h"
#include "oracle/replay/replay.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

constexpr double tie = 1.01;

/// A tolerance given by hand is for the kernel.
const CompareOptions derived{std::nullopt, std::nullopt, 0, std::nullopt, std::nullopt};

/// The sum of a tensor core for operands of the type.
Accumulation tensor_core_sum(Dtype dtype) {
    const int bytes = dtype_info(dtype).bytes;
    if (bytes == 4) return Accumulation::tensor_core_tf32;
    if (bytes == 1) return Accumulation::tensor_core_fp8;
    return Accumulation::tensor_core_f32;
}

/// What is known of an implementation that says nothing about itself: the coarsest that is still right.
Units reference_units(const Recording& recording) {
    Units units;
    // Only where there is a descale.
    units.q_cast = units.k_cast = units.v_cast = Dtype::bf16;
    units.s_tanh = TanhFunction::tanh_approx;
    units.s_accumulation = tensor_core_sum(recording.problem().dtype_q);
    units.p_exp = ExpFunction::ex2_approx;
    units.acc_accumulation = tensor_core_sum(recording.problem().dtype_v);
    units.lse_includes_sink = recording.units().lse_includes_sink;
    return units;
}

HeadCall reference_call(const Recording& recording, const RoundingModel& rounding, std::int64_t batch,
                        std::int64_t head) {
    HeadCall call = make_head_call(recording, rounding, batch, head);
    Problem& p = call.problem;
    p.kv_tiles_per_split = 0;
    p.split_starts.clear();
    p.l_lanes = p.l_lane_columns = 1;
    p.dtype_p = dtype_info(p.dtype_v).bytes <= 2 ? p.dtype_v : Dtype::f32;
    p.dtype_acc = Dtype::f32;
    p.dtype_partial_o = Dtype::f32;
    p.dtype_o = Dtype::f32;  // each reference rounds to its own
    call.units = reference_units(recording);
    return call;
}

/// A reference may come from another device than the kernel: the coarsest tensor core.
RoundingModel reference_rounding(const Recording& recording, double confidence) {
    std::array<double, stage_count> elements{};
    for (const Stage stage : {Stage::s, Stage::l, Stage::acc, Stage::o, Stage::lse}) {
        elements[static_cast<std::size_t>(stage)] =
            double(tile_count(recording.problem(), stage)) *
            double(tile_shape(recording.problem(), stage).elements()) * double(recording.references().size());
    }
    return rounding_model(confidence, elements, tensor_core(""));
}

double factor_of(LogBase base) {
    return base == LogBase::two ? std::numbers::log2e : 1;
}

/// What a row that sees no key may hold, whatever the kernel's convention is.
std::optional<EmptyRow> empty_row_of(float value) {
    if (std::isnan(value)) return EmptyRow::nan;
    if (value == 0) return EmptyRow::zero;
    if (std::isinf(value)) return value > 0 ? EmptyRow::plus_infinity : EmptyRow::minus_infinity;
    return std::nullopt;
}

/// Judges the references in one query block.
class QBlockReferences {
 public:
    QBlockReferences(const Recording& recording, const RoundingModel& rounding, HeadInputCache& inputs,
                     const TileId& tile)
        : recording_(recording),
          inputs_(inputs.get(tile.batch, recording.problem().head_kv(tile.head))),
          call_(reference_call(recording, rounding, tile.batch, tile.head)),
          tile_(tile),
          rows_(tile_extent(call_.problem, Stage::o, tile).rows) {}

    void judge(std::vector<ReferenceReport>& reports);

 private:
    bool any_has(Stage stage) const;
    void replay(Replay& replay, Spreads& spreads) const;
    bool is_empty(Stage stage, Eigen::Index row) const;
    MatrixF read(std::size_t index, Stage stage) const;
    Estimate expected(const ReferenceInfo& info, Stage stage) const;
    void accept_empty_rows(Stage stage, const MatrixF& got, Estimate& expected,
                           ReferenceOutput& output) const;
    void add_deviations(const ReferenceInfo& info, Stage stage, const MatrixF& got, const Matrix& exact,
                        ReferenceOutput& output) const;
    void judge_output(std::size_t index, Stage stage, ReferenceReport& report) const;

    const Recording& recording_;
    std::shared_ptr<const HeadInputs> inputs_;
    HeadCall call_;
    TileId tile_;
    std::int64_t rows_;
    Matrix row_sums_;  ///< rows_ x 1; 0: the row sees no key, and has no sink that comes first
    Estimate o_;       ///< natural units, before the store
    Estimate lse_;
    std::optional<MatrixF> kernel_o_;
    std::optional<MatrixF> kernel_lse_;
};

bool QBlockReferences::any_has(Stage stage) const {
    return std::ranges::any_of(recording_.references(),
                               [&](const ReferenceInfo& info) { return info.has(stage); });
}

void QBlockReferences::replay(Replay& replay, Spreads& spreads) const {
    const Problem& p = call_.problem;
    const std::int64_t first_row = tile_.q_block * p.block_m;
    StagedOperand q =
        staged_operand(call_, Stage::q, first_row,
                       load_input(recording_, Input::q, tile_.batch, tile_.head, first_row, rows_));
    // Some implementations multiply q and k with the root of the scale before their product.
    q.natural.error += gamma(4, u_f32);
    for (std::int64_t kv_tile = 0; kv_tile < p.kv_tiles(); ++kv_tile) {
        if (!tile_is_visible(p, tile_.q_block, kv_tile)) continue;
        const std::int64_t first = kv_tile * p.block_n;
        const std::int64_t keys = std::min(p.block_n, p.seqlen_kv - first);
        const StagedOperand k = staged_operand(call_, Stage::k, first, inputs_->k(first, keys));
        const StagedOperand v = staged_operand(call_, Stage::v, first, inputs_->v(first, keys));
        const TileOperands operands{q.natural, k.natural, v.natural};
        TileEstimates tile = replay.step(kv_tile, operands, {});
        spreads.add(kv_tile, operands, {}, tile);
    }
}

/// A sink that comes last joins what the row sees.
bool QBlockReferences::is_empty(Stage stage, Eigen::Index row) const {
    const bool sink_joins =
        call_.problem.sink == AttentionSink::last && (stage == Stage::o || call_.units.lse_includes_sink);
    return row_sums_(row, 0) == 0 && !sink_joins;
}

MatrixF QBlockReferences::read(std::size_t index, Stage stage) const {
    MatrixF got(rows_, stage == Stage::o ? call_.problem.head_dim_v : 1);
    recording_.read_reference(index, stage, tile_.batch, tile_.head, tile_.q_block * call_.problem.block_m,
                              rows_, {got.data(), std::size_t(got.size())});
    // No hook wrote this: a NaN is a NaN, whatever its payload.
    for (float& value : got.reshaped()) {
        if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
    }
    return got;
}

Estimate QBlockReferences::expected(const ReferenceInfo& info, Stage stage) const {
    Estimate expected = stage == Stage::o ? o_ : lse_;
    const double factor = stage == Stage::lse ? factor_of(info.lse_log_base) : 1;
    for (Eigen::Index i = 0; i < expected.value.rows(); ++i) {
        if (is_empty(stage, i)) continue;
        for (Eigen::Index j = 0; j < expected.value.cols(); ++j) {
            double& value = expected.value(i, j);
            double& error = expected.error(i, j);
            value *= factor;
            error *= factor;
            if (!std::isfinite(value)) continue;
            error += std::abs(value) * u_oracle;
            if (stage == Stage::o) error += cast_bound(info.dtype_o, std::abs(value) + error);
        }
    }
    return expected;
}

void QBlockReferences::accept_empty_rows(Stage stage, const MatrixF& got, Estimate& expected,
                                         ReferenceOutput& output) const {
    for (Eigen::Index i = 0; i < got.rows(); ++i) {
        if (!is_empty(stage, i)) continue;
        for (Eigen::Index j = 0; j < got.cols(); ++j) {
            const std::optional<EmptyRow> held = empty_row_of(got(i, j));
            if (!held) continue;
            output.empty_rows[static_cast<std::size_t>(*held)] = true;
            expected.value(i, j) = double(got(i, j));
        }
    }
}

void QBlockReferences::add_deviations(const ReferenceInfo& info, Stage stage, const MatrixF& got,
                                      const Matrix& exact, ReferenceOutput& output) const {
    const std::optional<MatrixF>& kernel = stage == Stage::o ? kernel_o_ : kernel_lse_;
    const double from_kernel =
        stage == Stage::o ? 1 : factor_of(info.lse_log_base) / factor_of(recording_.units().lse_log_base);
    for (Eigen::Index i = 0; i < got.rows(); ++i) {
        if (is_empty(stage, i)) continue;
        for (Eigen::Index j = 0; j < got.cols(); ++j) {
            if (!std::isfinite(exact(i, j))) continue;
            const double difference = double(got(i, j)) - exact(i, j);
            if (std::isfinite(got(i, j))) output.to_oracle.add(difference);
            if (!kernel || !std::isfinite((*kernel)(i, j))) continue;
            const double held = double((*kernel)(i, j)) * from_kernel;
            if (!std::isfinite(got(i, j))) {
                ++output.lost;
                continue;
            }
            output.to_kernel.add(held - double(got(i, j)));
            output.kernel_to_oracle.add(held - exact(i, j));
            output.shared_to_oracle.add(difference);
        }
    }
}

void QBlockReferences::judge_output(std::size_t index, Stage stage, ReferenceReport& report) const {
    if (!report.info.has(stage)) return;
    ReferenceOutput& output = stage == Stage::o ? report.o : report.lse;
    const MatrixF got = read(index, stage);
    Estimate should_hold = expected(report.info, stage);
    accept_empty_rows(stage, got, should_hold, output);
    TileContext context = tile_context(call_.problem, stage, tile_);
    context.dtype = stage == Stage::o ? report.info.dtype_o : Dtype::f32;
    compare_tile(context, got, should_hold, nullptr, derived, output.tally);
    output.tally.bad_rows.clear();
    add_deviations(report.info, stage, got, should_hold.value, output);
}

void QBlockReferences::judge(std::vector<ReferenceReport>& reports) {
    const bool with_o = any_has(Stage::o);
    Replay exact(call_, tile_.q_block, with_o ? Stage::acc : Stage::l, Replay::Source::inputs);
    Spreads spreads(call_, tile_.q_block, rows_);
    replay(exact, spreads);
    row_sums_ = exact.state().l.value;
    if (with_o) {
        o_ = exact.output();
        spreads.add_output(o_);
        kernel_o_ = load_tile(recording_, call_.problem, Stage::o, tile_);
    }
    if (any_has(Stage::lse)) {
        lse_ = exact.log_sum_exp();
        kernel_lse_ = load_tile(recording_, call_.problem, Stage::lse, tile_);
    }
    for (std::size_t i = 0; i < reports.size(); ++i) {
        judge_output(i, Stage::o, reports[i]);
        judge_output(i, Stage::lse, reports[i]);
    }
}

/// o and lse of each reference.
using OutputsOfReferences = std::vector<std::pair<ReferenceOutput, ReferenceOutput>>;

std::vector<ReferenceReport> nothing_found(const Recording& recording) {
    std::vector<ReferenceReport> reports;
    for (const ReferenceInfo& info : recording.references()) reports.push_back({info, {}, {}});
    return reports;
}

void merge_output(const ReferenceOutput& part, ReferenceOutput& whole) {
    merge(part.tally, derived, whole.tally);
    whole.to_oracle.add(part.to_oracle);
    whole.to_kernel.add(part.to_kernel);
    whole.lost += part.lost;
    whole.kernel_to_oracle.add(part.kernel_to_oracle);
    whole.shared_to_oracle.add(part.shared_to_oracle);
    for (std::size_t i = 0; i < whole.empty_rows.size(); ++i)
        whole.empty_rows[i] = whole.empty_rows[i] || part.empty_rows[i];
}

}  // namespace

void Deviation::add(double difference) {
    ++elements;
    squares += difference * difference;
    largest = std::max(largest, std::abs(difference));
}

void Deviation::add(const Deviation& part) {
    elements += part.elements;
    squares += part.squares;
    largest = std::max(largest, part.largest);
}

double Deviation::rms() const {
    return elements == 0 ? 0 : double(float(std::sqrt(squares / double(elements))));
}

Closer closer_to_oracle(const ReferenceOutput& output) {
    const double kernel = output.kernel_to_oracle.rms();
    const double reference = output.shared_to_oracle.rms();
    if (kernel > reference * tie) return Closer::reference;
    return reference > kernel * tie ? Closer::kernel : Closer::neither;
}

std::int64_t reference_steps(const Recording& recording) {
    return recording.references().empty() ? 0 : tile_count(recording.problem(), Stage::o);
}

std::vector<ReferenceReport> judge_references(const Recording& recording, double confidence, int threads,
                                              const std::function<void()>& step, WorkSharing& sharing) {
    std::vector<ReferenceReport> whole = nothing_found(recording);
    if (whole.empty()) return whole;
    const Problem& problem = recording.problem();
    const RoundingModel rounding = reference_rounding(recording, confidence);
    HeadInputCache inputs(recording);
    // A thread's next query block is mostly of the same head.
    std::vector<std::shared_ptr<const HeadInputs>> in_use(std::size_t(team_size(threads)));
    const auto judge_block = [&](std::int64_t i) {
        if (step) step();
        OutputsOfReferences found;
        const TileId tile = tile_at(problem, Stage::o, i);
        if (tile.q_block >= problem_of(problem, recording.side_inputs(), tile.batch).q_blocks()) return found;
        in_use[std::size_t(omp_get_thread_num())] = inputs.get(tile.batch, problem.head_kv(tile.head));
        std::vector<ReferenceReport> here = nothing_found(recording);
        QBlockReferences(recording, rounding, inputs, tile).judge(here);
        for (ReferenceReport& report : here) found.emplace_back(std::move(report.o), std::move(report.lse));
        return found;
    };
    const WorkSharing::Stretch all{tile_count(problem, Stage::o), sharing.home_of(recording.name())};
    // One after the other: what sums round is the same however many judge them.
    for (const OutputsOfReferences& found :
         share_pieces<OutputsOfReferences>(std::span(&all, 1), threads, sharing, judge_block)) {
        for (std::size_t i = 0; i < found.size(); ++i) {
            merge_output(found[i].first, whole[i].o);
            merge_output(found[i].second, whole[i].lse);
        }
    }
    return whole;
}

std::vector<std::size_t> closest_references(const std::vector<ReferenceReport>& references) {
    const auto distance = [&](std::size_t i) { return references[i].o.to_kernel.rms(); };
    std::vector<std::size_t> closest;
    for (std::size_t i = 0; i < references.size(); ++i) {
        if (references[i].o.comparable()) closest.push_back(i);
    }
    std::ranges::stable_sort(closest, {}, distance);
    while (!closest.empty() && distance(closest.back()) > tie * distance(closest.front())) closest.pop_back();
    return closest;
}

}  // namespace tilescope
