#include "kernels/run/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/run/report_json.h"

namespace tilescope {

namespace {

using nlohmann::ordered_json;

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

/// NaNs differ in their bits only.
std::string value_text(float value) {
    if (is_unwritten(value)) return "unwritten";
    if (std::isnan(value)) return fmt::format("nan {:#010x}", bits_of(value));
    return fmt::format("{:.9g}", value);
}

std::string place_text(const Problem& problem, Stage stage, const ElementDifference& element) {
    const StageInfo info = stage_info(problem, stage);
    std::string place = fmt::format("batch {}, head {}", element.tile.batch, element.tile.head);
    if (info.per_q_block) place += fmt::format(", q block {}", element.tile.q_block);
    place += fmt::format(", {} {}", info.row_axis == Axis::key ? "key" : "row", element.row);
    if (info.col_axis == Axis::key) place += fmt::format(", key {}", element.col);
    if (info.col_axis == Axis::query) place += fmt::format(", row {}", element.col);
    const bool columns =
        is_named(stage) && info.col_axis == Axis::unit && tile_shape(problem, stage).cols > 1;
    if (info.col_axis == Axis::feature || columns) place += fmt::format(", column {}", element.col);
    if (info.per_kv_tile) place += fmt::format(", KV tile {}", element.tile.kv_tile);
    return place;
}

std::string change_text(const Problem& problem, Stage stage, const ElementDifference& element) {
    return fmt::format("{} at {}: {}, then {}", stage_info(problem, stage).name,
                       place_text(problem, stage, element), value_text(element.first_run),
                       value_text(element.second_run));
}

/// As text where JSON has no number for it.
ordered_json value_json(float value) {
    ordered_json json;
    if (std::isfinite(value)) {
        json["value"] = value;
    } else {
        json["value"] = is_unwritten(value) ? "unwritten" : std::isnan(value) ? "nan" : value_text(value);
    }
    json["bits"] = fmt::format("{:#010x}", bits_of(value));
    return json;
}

/// Null where nothing changed.
ordered_json change_json(const Problem& problem, Stage stage,
                         const std::optional<ElementDifference>& element) {
    if (!element) return {};
    return {{"stage", stage_info(problem, stage).name},
            {"batch", element->tile.batch},
            {"head", element->tile.head},
            {"q_block", element->tile.q_block},
            {"row", element->row},
            {"col", element->col},
            {"kv_tile", element->tile.kv_tile},
            {"first_run", value_json(element->first_run)},
            {"this_run", value_json(element->second_run)}};
}

// ---- hooks that change nothing

struct FigureRow {
    const char* name;  ///< as text and, with '_' for ' ', as JSON
    double (*figure)(const KernelFigures& figures);
};

constexpr FigureRow figure_rows[] = {
    {"registers", [](const KernelFigures& f) { return double(f.registers); }},
    {"local bytes", [](const KernelFigures& f) { return double(f.local_bytes); }},
    {"static shared bytes", [](const KernelFigures& f) { return double(f.static_shared); }},
    {"dynamic shared bytes", [](const KernelFigures& f) { return double(f.dynamic_shared); }},
    {"constant bytes", [](const KernelFigures& f) { return double(f.constant_bytes); }},
};

ordered_json to_json(const KernelFigures& figures) {
    ordered_json json;
    for (const FigureRow& row : figure_rows) {
        std::string key = row.name;
        std::ranges::replace(key, ' ', '_');
        json[key] = std::int64_t(row.figure(figures));
    }
    return json;
}

/// A time, and how many times the plain build's it is.
std::string time_row(const char* name, double ms, double plain_ms) {
    return fmt::format("{:<34}{:>9.4f} ms {:>9.4f} ms {:>7.3f} x\n", name, ms, plain_ms, ms / plain_ms);
}

// ---- poison

constexpr std::string_view name_of(PoisonVerdict verdict) {
    switch (verdict) {
        case PoisonVerdict::independent:
            return "independent";
        case PoisonVerdict::dependent:
            return "dependent";
        case PoisonVerdict::not_repeatable:
            return "not_repeatable";
    }
    return "";
}

std::string unwritten_text(const UnwrittenOutput& output) {
    const std::string_view name = stage_info(output.stage).name;
    if (output.unwritten == 0) return fmt::format("{}: all {} elements stored\n", name, output.elements);
    return fmt::format(
        "{}: {} of {} elements never stored, the first at batch {}, head {}, row {}, column {}\n", name,
        output.unwritten, output.elements, output.first->batch, output.first->head, output.first->row,
        output.first->col);
}

std::string verdict_line(const Problem& problem, const PoisonReport& report) {
    const PoisonedRun* run = report.first_changed_run();
    const StageDifference* change = run == nullptr ? nullptr : first_changed(run->stages);
    switch (verdict_of(report)) {
        case PoisonVerdict::independent:
            return "independent: outputs and captured tiles have the same bits whatever shared memory and "
                   "outputs held; registers cannot be filled";
        case PoisonVerdict::not_repeatable:
            return fmt::format(
                "not repeatable: runs with the same contents differ, so a dependence cannot be told from a "
                "race; {} changes first; see tile-run repeat",
                stage_info(problem, change->stage).name);
        case PoisonVerdict::dependent:
            break;
    }
    if (change == nullptr) return "dependent: elements of an output keep what memory held before the launch";
    return fmt::format("dependent: {} is the first stage that changes with what memory held, at {}",
                       stage_info(problem, change->stage).name,
                       place_text(problem, change->stage, *change->first));
}

ordered_json to_json(const Problem& problem, const PoisonedRun& run) {
    ordered_json json;
    json["shared_memory"] = run.poison->name;
    json["shared_word"] = fmt::format("{:#010x}", run.poison->fill.shared_word.value_or(0));
    json["output_byte"] = fmt::format("{:#04x}", std::to_integer<int>(run.poison->fill.output_byte));
    json["compared"] = count_compared(run.stages);
    json["changed"] = count_changed(run.stages);
    json["stages"] = ordered_json::array();
    for (const StageDifference& stage : run.stages) {
        json["stages"].push_back({{"name", stage_info(problem, stage.stage).name},
                                  {"compared", stage.compared},
                                  {"changed", stage.changed},
                                  {"first", change_json(problem, stage.stage, stage.first)}});
    }
    return json;
}

ordered_json to_json(const UnwrittenOutput& output) {
    ordered_json json = {{"stage", stage_info(output.stage).name},
                         {"elements", output.elements},
                         {"unwritten", output.unwritten},
                         {"first", nullptr}};
    if (output.first) {
        json["first"] = {{"batch", output.first->batch},
                         {"head", output.first->head},
                         {"row", output.first->row},
                         {"col", output.first->col}};
    }
    return json;
}

}  // namespace

ordered_json request_json(const RunRequest& request, std::string_view verdict) {
    ordered_json json;
    json["verdict"] = verdict;
    json["kernel"] = request.kernel->name;
    json["config"] = config_name(request.config);
    json["dtype"] = dtype_info(request.config.dtype).name;
    json["fault"] = nullptr;
    if (request.fault != Fault::none) json["fault"] = fault_info(request.fault).name;
    json["command"] = request.command;
    return json;
}

std::string lines_of(const ordered_json& json) {
    return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string describe(const RunRequest& request) {
    std::string text = fmt::format("{} {} head_dim {}", request.kernel->name, config_name(request.config),
                                   request.config.head_dim);
    if (request.config.dtype != Dtype::f16)
        text += fmt::format(", {}", dtype_info(request.config.dtype).name);
    if (request.fault != Fault::none) {
        const FaultInfo& fault = fault_info(request.fault);
        text += fmt::format(", fault {} planted in {}", fault.name, stage_info(fault.stage).name);
    }
    return text;
}

std::string to_text(const RunRequest& request, const InertProof& proof) {
    std::string text = fmt::format("{:<34}{:>12} {:>12}\n", "", "with hooks", "without");
    for (const FigureRow& row : figure_rows) {
        text += fmt::format("{:<34}{:>12.0f} {:>12.0f}\n", row.name, row.figure(proof.hooked),
                            row.figure(proof.plain));
    }
    text += time_row("time, nothing selected", proof.unarmed_ms, proof.plain_ms);
    text += time_row("time, capturing what is selected", proof.capturing_ms, proof.plain_ms);
    if (proof.different != 0) {
        return text + fmt::format("{}: the hooks change {} of {} bytes of o and lse, the first in {}\n",
                                  describe(request), proof.different, proof.compared, proof.first_difference);
    }
    return text + fmt::format("{}: o and lse have the same {} bytes with and without hooks\n",
                              describe(request), proof.compared);
}

std::string to_json(const RunRequest& request, const InertProof& proof) {
    ordered_json json = request_json(request, proof.different == 0 ? "inert" : "not_inert");
    json["bytes_compared"] = proof.compared;
    json["bytes_different"] = proof.different;
    json["first_difference"] = nullptr;
    if (proof.different != 0) json["first_difference"] = proof.first_difference;
    json["with_hooks"] = to_json(proof.hooked);
    json["without_hooks"] = to_json(proof.plain);
    json["with_hooks"]["nothing_selected_ms"] = proof.unarmed_ms;
    json["with_hooks"]["capturing_ms"] = proof.capturing_ms;
    json["without_hooks"]["ms"] = proof.plain_ms;
    return lines_of(json);
}

namespace {

/// What repeated runs showed; the last line is the verdict.
std::string repeat_text(const Problem& problem, const RepeatReport& report) {
    const RepeatedStage* change = first_changed(report);
    if (change == nullptr) {
        std::int64_t compared = 0;
        for (const RepeatedStage& stage : report.stages) compared += stage.compared;
        return fmt::format("repeatable: {} elements of {} stages have the same bits in every run\n", compared,
                           report.stages.size());
    }
    std::size_t width = 5;
    for (const RepeatedStage& stage : report.stages)
        width = std::max(width, stage_info(problem, stage.stage).name.size());
    std::string text =
        fmt::format("{:<{}}   compared  runs that differ  most changed  first change\n", "stage", width);
    for (const RepeatedStage& stage : report.stages) {
        text += fmt::format("{:<{}} {:>10} {:>17} {:>13}", stage_info(problem, stage.stage).name, width,
                            stage.compared, stage.changed_runs, stage.most_changed);
        if (stage.first)
            text +=
                fmt::format("  run {}, {}", stage.first_run, change_text(problem, stage.stage, *stage.first));
        text += "\n";
    }
    return text + fmt::format(
                      "not repeatable: {} of {} runs differ from the first; {} is the first stage "
                      "that changes, in run {} at {}\n",
                      report.changed_runs, report.runs - 1, stage_info(problem, change->stage).name,
                      change->first_run, place_text(problem, change->stage, *change->first));
}

/// Adds what repeated runs showed.
void add_repeat(const Problem& problem, const RepeatReport& report, ordered_json& json) {
    const RepeatedStage* change = first_changed(report);
    json["device"] = report.device;
    json["runs"] = report.runs;
    json["changed_runs"] = report.changed_runs;
    json["first_change"] =
        change == nullptr ? ordered_json() : change_json(problem, change->stage, change->first);
    if (change != nullptr) json["first_change"]["run"] = change->first_run;
    json["stages"] = ordered_json::array();
    for (const RepeatedStage& stage : report.stages) {
        json["stages"].push_back({{"name", stage_info(problem, stage.stage).name},
                                  {"compared", stage.compared},
                                  {"changed_runs", stage.changed_runs},
                                  {"most_changed", stage.most_changed},
                                  {"first", change_json(problem, stage.stage, stage.first)}});
    }
}

constexpr const char* waiting_runs = ", in every second of which warps wait in hooks";

constexpr const char* repeat_verdict(bool repeatable) {
    return repeatable ? "repeatable" : "not_repeatable";
}

}  // namespace

std::string to_text(const RunRequest& request, const RepeatReport& report) {
    return fmt::format("{} on {}: {} runs with the same inputs{}\n", describe(request), report.device,
                       report.runs, request.engine == Engine::cuda ? waiting_runs : "") +
           repeat_text(request.problem, report);
}

std::string to_json(const RunRequest& request, const RepeatReport& report) {
    ordered_json json = request_json(request, repeat_verdict(report.changed_runs == 0));
    add_repeat(request.problem, report, json);
    return lines_of(json);
}

std::string to_text(const ProgramRepeat& repeat) {
    std::string text =
        fmt::format("{}: {} runs with the same inputs{}\n", repeat.command, repeat.runs, waiting_runs);
    for (const RepeatedRecording& each : repeat.recordings)
        text += each.name + ": " + (each.report.changed_runs == 0 ? "" : "\n") +
                repeat_text(each.problem, each.report);
    return text;
}

std::string to_json(const ProgramRepeat& repeat) {
    ordered_json json = {{"verdict", repeat_verdict(repeat.is_repeatable())},
                         {"command", repeat.command},
                         {"recordings", ordered_json::array()}};
    for (const RepeatedRecording& each : repeat.recordings) {
        ordered_json one = {{"name", each.name}, {"verdict", repeat_verdict(each.report.changed_runs == 0)}};
        add_repeat(each.problem, each.report, one);
        json["recordings"].push_back(std::move(one));
    }
    return lines_of(json);
}

std::string to_text(const RunRequest& request, const PoisonReport& report) {
    std::string text = fmt::format("{} on {}: {} runs, each against that after shared memory held zeros\n",
                                   describe(request), report.device, poisons.size());
    text += "shared memory  outputs   compared    changed  first change\n";
    for (const PoisonedRun& run : report.runs) {
        const StageDifference* change = first_changed(run.stages);
        text += fmt::format(
            "{:<14} {:>7} {:>10} {:>10}  {}\n", run.poison->name,
            fmt::format("{:#04x}", std::to_integer<int>(run.poison->fill.output_byte)),
            count_compared(run.stages), count_changed(run.stages),
            change == nullptr ? "none" : change_text(request.problem, change->stage, *change->first));
    }
    for (const UnwrittenOutput& output : report.outputs) text += unwritten_text(output);
    return text + verdict_line(request.problem, report) + "\n";
}

std::string to_json(const RunRequest& request, const PoisonReport& report) {
    ordered_json json = request_json(request, name_of(verdict_of(report)));
    json["device"] = report.device;
    const PoisonedRun* run = report.first_changed_run();
    const StageDifference* change = run == nullptr ? nullptr : first_changed(run->stages);
    json["first_change"] =
        change == nullptr ? ordered_json() : change_json(request.problem, change->stage, change->first);
    if (run != nullptr) json["first_change"]["shared_memory"] = run->poison->name;
    json["runs"] = ordered_json::array();
    for (const PoisonedRun& each : report.runs) json["runs"].push_back(to_json(request.problem, each));
    json["outputs"] = ordered_json::array();
    for (const UnwrittenOutput& output : report.outputs) json["outputs"].push_back(to_json(output));
    return lines_of(json);
}

std::string to_text(const std::array<QuantisationError, 3>& errors) {
    std::string text = "quantised to e4m3, a scale a head:";
    for (std::size_t i = 0; i < errors.size(); ++i) {
        text += fmt::format("{} {} {:.3g} rms, {:.3g} of the largest", i == 0 ? "" : ";",
                            quantised_operands()[i].name, errors[i].rms, errors[i].largest);
    }
    return text + "; tile-diff judges the kernel by the quantised operands\n";
}

}  // namespace tilescope
