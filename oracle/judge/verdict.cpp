#include "oracle/judge/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "dump/schema/declarations.h"
#include "oracle/judge/tile_judge.h"
#include "oracle/judge/writers.h"
#include "oracle/replay/tiles.h"

namespace tilescope {

namespace {

/// What stands for the conflicting elements of a tile, which the capture does not name: the first element
/// that was written more than once, or else the tile's corner.
WrittenAgain conflicting_element(const Recording& recording, Stage stage, const TileId& tile) {
    const TileContext context = tile_context(recording.problem(), stage, tile);
    const RepeatedElement place = first_repeated(recording, stage, tile).value_or(RepeatedElement());
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    return {{Finding::conflicting, tile, context.first_row + place.row, context.first_col + place.col,
             unknown, unknown, 0},
            place.writer};
}

/// Whether the write that was counted first is in a query block just beyond the last one, and right otherwise: what
/// warps write that have no rows of the tensor, where their rows count as a query block of their own.
bool only_rows_are_left_over(const Problem& problem, Stage stage, const StageCapture& capture) {
    if (!capture.first_out_of_range) return false;
    const auto& [tile, row, col] = *capture.first_out_of_range;
    const TileShape shape = tile_shape(problem, stage);
    const auto within = [](std::int64_t value, std::int64_t size) { return value >= 0 && value < size; };
    return within(tile.batch, problem.batch) && within(tile.head, stage_heads(problem, stage)) &&
           within(tile.kv_tile, problem.kv_tiles()) && within(row, shape.rows) && within(col, shape.cols) &&
           within(tile.q_block - problem.q_blocks(), problem.q_blocks());
}

std::string describe_out_of_range(const Problem& problem, const StageInfo& info,
                                  const StageCapture& capture) {
    std::string text =
        fmt::format("{} writes of {} were outside the problem", capture.elements_out_of_range, info.name);
    if (capture.first_out_of_range) {
        const auto& [tile, row, col] = *capture.first_out_of_range;
        const TileShape shape = tile_shape(problem, info.stage);
        text += fmt::format(
            ", one of them at batch {}, head {}, query block {}, KV tile {}, row {}, column {}; the problem "
            "has "
            "{}, {}, {} and {} of them, and tiles of {} have {} x {}",
            tile.batch, tile.head, tile.q_block, tile.kv_tile, row, col, problem.batch,
            stage_heads(problem, info.stage), problem.q_blocks(), problem.kv_tiles(), info.name, shape.rows,
            shape.cols);
    }
    if (only_rows_are_left_over(problem, info.stage, capture))
        return text +
               ": check the coordinates that the hook is given, and whether block_m is less than the rows of "
               "the kernel's block, whose last warps may have none left in the tensor";
    return text + ": check the coordinates that the hook is given, and block_m and block_n of the problem";
}

void add_call(const Problem& p, const Recording& recording, std::vector<std::string>& options) {
    if (p.diagonal_offset != 0)
        options.push_back(fmt::format("diagonal {} keys to the {}", std::abs(p.diagonal_offset),
                                      p.diagonal_offset > 0 ? "right" : "left"));
    const bool exclusive = p.window_bounds == WindowBounds::exclusive;
    if (p.window_left >= 0 || p.window_right >= 0)
        options.push_back(
            fmt::format("window {}, {}{}", p.window_left, p.window_right, exclusive ? " exclusive" : ""));
    if (p.logits_soft_cap != 0) options.push_back(fmt::format("soft cap {:g}", p.logits_soft_cap));
    if (p.alibi != Alibi::none)
        options.push_back(p.alibi == Alibi::linear ? "ALiBi, linear" : "ALiBi, by distance");
    if (recording.has_bias()) options.push_back("bias");
    if (p.is_interleaved()) options.push_back("interleaved heads");
    if (p.sink != AttentionSink::none)
        options.push_back(p.sink == AttentionSink::first ? "sink first" : "sink last");
}

void add_inputs(const SideInputs& side, std::vector<std::string>& options) {
    if (!side.seqlens_q.empty() || !side.seqlens_kv.empty()) options.push_back("lengths by batch entry");
    std::string descaled;
    for (const auto& [name, descale] :
         {std::pair{" q", &side.descale_q}, {" k", &side.descale_k}, {" v", &side.descale_v}})
        if (!descale->empty()) descaled += name;
    if (!descaled.empty()) options.push_back("descales of" + descaled);
}

void add_kernel(const Problem& p, const Units& u, std::vector<std::string>& options) {
    if (u.q_scale != 1) options.push_back(fmt::format("q times {:g}", u.q_scale));
    if (u.k_scale != 1) options.push_back(fmt::format("k times {:g}", u.k_scale));
    if (u.p_scale != 1) options.push_back(fmt::format("P times {:g}", u.p_scale));
    if (u.p_descale_v != DescaleInP::none) options.push_back("P times the descale of V");
    if (u.p_of_tile_max) options.push_back("P of its tile's maximum");
    if (u.p_normalised) options.push_back("P over l");
    if (std::isfinite(u.p_least_argument))
        options.push_back(fmt::format("exponential from {:g}", u.p_least_argument));
    if (std::isfinite(u.p_flush_below))
        options.push_back(fmt::format("exponential 0 below {:g}", u.p_flush_below));
    if (u.m_offset != 0) options.push_back(fmt::format("m offset by {:g}", u.m_offset));
    if (std::isfinite(u.m_start)) options.push_back(fmt::format("m from {:g}", u.m_start));
    if (u.m_from_lse) options.push_back("m from lse");
    if (u.acc_normalised) options.push_back("acc over l");
    if (u.m_stale_threshold > 0) options.push_back(fmt::format("m stale by up to {:g}", u.m_stale_threshold));
    if (p.l_lanes > 1) options.push_back(fmt::format("l of {} lanes", p.l_lanes));
    if (p.kv_tiles_per_split > 0)
        options.push_back(fmt::format("splits of {} KV tiles", p.kv_tiles_per_split));
    if (!p.split_starts.empty())
        options.push_back("splits at KV tiles " + declarations::list_text(p.split_starts));
    if (p.is_split() && p.dtype_partial_o != Dtype::f32)
        options.push_back(fmt::format("o of splits in {}", dtype_info(p.dtype_partial_o).name));
    if (u.kv_order == KvOrder::reverse) options.push_back("KV tiles in reverse");
}

}  // namespace

std::vector<std::string> options_of(const Recording& recording) {
    std::vector<std::string> options;
    add_call(recording.problem(), recording, options);
    add_inputs(recording.side_inputs(), options);
    add_kernel(recording.problem(), recording.units(), options);
    return options;
}

std::string dropped_of(const Recording& recording, const StageInfo& info) {
    const StageCapture& capture = recording.capture().stages[static_cast<std::size_t>(info.stage)];
    if (capture.dropped.empty() && capture.elements_dropped == 0) return "";
    return std::to_string(capture.dropped.size()) + " tiles of " + std::string(info.name) +
           " were dropped for lack of room";
}

void count_conflicts(const Recording& recording, Report& report) {
    for (const StageInfo& info : all_stages()) {
        StageReport& stage = report.stages[static_cast<std::size_t>(info.stage)];
        for (const StageCapture::Conflict& conflict :
             recording.capture().stages[static_cast<std::size_t>(info.stage)].conflicts) {
            stage.tally.conflicting += conflict.elements;
            const WrittenAgain again = conflicting_element(recording, info.stage, conflict.tile);
            if (!stage.tally.first || comes_before(again.element, *stage.tally.first))
                stage.tally.first = again.element;
            const bool first =
                !stage.first_repeated || comes_before(again.element, stage.first_repeated->element);
            if (again.writer.writes > 0 && first) stage.first_repeated = again;
        }
    }
}

void count_writers(const Recording& recording, Report& report) {
    for (const StageInfo& info : stages_of(recording.problem())) {
        report.stages[static_cast<std::size_t>(info.stage)].writers = count_writers(recording, info.stage);
    }
}

void reach_verdict(Report& report) {
    report.verdict = Verdict::match;
    report.guilty = std::nullopt;
    report.first_divergence = std::nullopt;
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageReport& stage = report.stage(info.stage);
        if (!stage.tally.diverges() || !stage.undeclared.empty()) continue;
        report.verdict = Verdict::diverged;
        report.guilty = info.stage;
        report.first_divergence = stage.tally.first;
        return;
    }
}

std::string silent_output(const Report& report) {
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageTally& tally = report.stage(info.stage).tally;
        if (!is_output(info.stage) || !report.stage(info.stage).captured || tally.tiles == 0) continue;
        if (tally.is_constant())
            return fmt::format(
                "{} is {:g} everywhere, although its expected values differ by more than their "
                "tolerances",
                info.name, tally.least_got);
        if (tally.compared > 0) continue;
        return fmt::format("no element of {} could be judged: {}", info.name,
                           tally.not_judged > 0 ? "the tolerances are as wide as what could be there at all"
                                                : "nothing can be expected of any");
    }
    return "";
}

void add_warnings_of_named(const Recording& recording, Report& report) {
    for (const StageInfo& info : stages_of(recording.problem())) {
        if (!is_named(info.stage)) continue;
        const StageCapture& capture = recording.capture().stages[static_cast<std::size_t>(info.stage)];
        const std::string dropped = dropped_of(recording, info);
        if (!dropped.empty()) report.warnings.push_back(dropped);
        std::int64_t conflicting = 0;
        for (const StageCapture::Conflict& conflict : capture.conflicts) conflicting += conflict.elements;
        if (conflicting > 0)
            report.warnings.push_back(std::to_string(conflicting) + " writes of " + std::string(info.name) +
                                      " changed an element already written");
    }
}

namespace {

/// Tiles were to be recorded, and there is none: of outputs alone nothing says so.
bool came_to_no_hook(const Recording& recording, const Report& report) {
    const std::optional<Selection>& selection = recording.capture().selection;
    if (!selection) return false;
    bool is_any_selected = false;
    for (const StageInfo& info : stages_of(recording.problem())) {
        if (is_output(info.stage)) continue;
        if (report.stage(info.stage).captured) return false;
        is_any_selected = is_any_selected || count_selected(recording.problem(), info.stage, *selection) > 0;
    }
    return is_any_selected;
}

}  // namespace

void add_warnings(const Recording& recording, Report& report) {
    if (came_to_no_hook(recording, report))
        report.warnings.emplace_back(
            "no hook wrote a tile: the kernel came to none, as where a loop over blocks or tiles never runs, "
            "or was compiled without them");
    for (const StageInfo& info : stages_of(recording.problem())) {
        const StageCapture& capture = recording.capture().stages[static_cast<std::size_t>(info.stage)];
        if (capture.elements_out_of_range == 0) continue;
        report.warnings.push_back(describe_out_of_range(recording.problem(), info, capture));
    }
    const StageTally& p = report.stage(Stage::p).tally;
    if (p.saturated > 0) {
        report.warnings.push_back(fmt::format(
            "{} elements of p are {:g}, the largest {} number, where up to {:g} belongs: the scale of p, "
            "{:g}, "
            "leaves no room for a maximum that stays behind by up to {:g}",
            p.saturated, dtype_info(report.units.p_cast).max_finite, dtype_info(report.units.p_cast).name,
            p.most_saturated, report.units.p_scale, report.units.m_stale_threshold));
    }
    // The null test. Operands are copies, of inputs that may well be constant.
    std::string constants;
    for (const StageInfo& info : all_stages()) {
        const StageTally& tally = report.stage(info.stage).tally;
        if (is_operand(info.stage) || tally.diverges() || !tally.constant_passes()) continue;
        constants += (constants.empty() ? "" : ", ") + std::string(info.name);
    }
    if (!constants.empty()) {
        report.warnings.push_back("one constant would pass for the whole of " + constants +
                                  ": tighten the tolerance, or record inputs that vary more");
    }
    if (recording.capture().ended != "completed") {
        report.warnings.push_back(how_it_ended(recording.capture().ended));
    }
}

}  // namespace tilescope
