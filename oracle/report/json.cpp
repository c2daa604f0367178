#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "oracle/report/changes_json.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

using nlohmann::ordered_json;

ordered_json number(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
}

ordered_json to_json(std::string_view stage, const Element& element) {
    ordered_json json;
    json["stage"] = stage;
    json["finding"] = to_string(element.finding);
    json["batch"] = element.tile.batch;
    json["head"] = element.tile.head;
    json["q_block"] = element.tile.q_block;
    json["row"] = element.row;
    json["col"] = element.col;
    json["kv_tile"] = element.tile.kv_tile;
    json["got"] = number(element.got);
    json["expected"] = number(element.expected);
    json["tolerance"] = number(element.tolerance);
    return json;
}

ordered_json optional_json(std::string_view stage, const std::optional<Element>& element) {
    return element ? to_json(stage, *element) : ordered_json();
}

/// The thread that owns the element, null where it is not declared.
ordered_json to_json(const std::optional<Owner>& owner) {
    if (!owner) return {};
    return {{"warp", owner->warp}, {"lane", owner->lane}, {"register", owner->reg}};
}

ordered_json first_divergence_json(const Report& report) {
    if (!report.guilty) return {};
    ordered_json json = to_json(stage_info(report.problem, *report.guilty).name, *report.first_divergence);
    json["thread"] =
        to_json(owner_of(report.problem, report.threads, *report.guilty, *report.first_divergence));
    return json;
}

ordered_json to_json(const std::optional<WriterCounts>& counts) {
    if (!counts) return {};
    return {{"repeated", counts->repeated}, {"by_several", counts->by_several}};
}

ordered_json to_json(std::string_view stage, const std::optional<WrittenAgain>& again) {
    if (!again) return {};
    ordered_json json = to_json(stage, again->element);
    json["writes"] = again->writer.writes;
    json["first_thread"] = again->writer.first_thread;
    json["several_threads"] = again->writer.several_threads;
    return json;
}

ordered_json to_json(const StageInfo& info, const StageReport& stage) {
    const StageTally& t = stage.tally;
    ordered_json json;
    json["name"] = info.name;
    json["captured"] = stage.captured;
    json["compared"] = t.compared;
    json["not_judged"] = t.not_judged;
    json["saturated"] = t.saturated;
    if (!stage.hooks.empty()) {
        json["hooks"] = ordered_json::array();
        for (const SourceLine& hook : stage.hooks) json["hooks"].push_back(to_string(hook));
    }
    if (!stage.undeclared.empty()) json["undeclared"] = stage.undeclared;
    json["outside"] = t.outside;
    json["nonfinite"] = t.nan + t.infinite;
    json["nan"] = t.nan;
    json["inf"] = t.infinite;
    json["unwritten"] = t.unwritten;
    json["tiles_missing"] = t.tiles_missing;
    json["conflicting"] = t.conflicting;
    json["max_abs"] = number(t.max_abs);
    json["max_ulp"] = t.max_ulp;
    json["budget_used"] = number(t.budget_used);
    json["inherited"] = t.inherited;
    json["first"] = optional_json(info.name, t.first);
    json["first_nan"] = optional_json(info.name, t.first_nan);
    json["first_inf"] = optional_json(info.name, t.first_infinite);
    json["first_unwritten"] = optional_json(info.name, t.first_unwritten);
    json["writers"] = to_json(stage.writers);
    json["first_repeated"] = to_json(info.name, stage.first_repeated);
    json["worst"] = ordered_json::array();
    for (const Element& element : t.worst) json["worst"].push_back(to_json(info.name, element));
    json["bad_rows"] = t.bad_rows.size();
    return json;
}

ordered_json bad_rows_json(const StageTally& tally) {
    ordered_json rows = ordered_json::array();
    for (const BadRow& row : tally.bad_rows) {
        rows.push_back(
            {{"batch", row.batch}, {"head", row.head}, {"row", row.row}, {"elements", row.elements}});
    }
    return rows;
}

ordered_json to_json(const RunReach& reached) {
    ordered_json json;
    json["finishing_stage"] = stage_info(reached.finishing).name;
    for (const Reach reach : {Reach::finished, Reach::under_way, Reach::not_begun})
        json[name_of(reach)] = reached.count(reach);
    json["blocks"] = ordered_json::array();
    for (const ReachedBlock& block : reached.blocks) {
        ordered_json one = {{"batch", block.q_block.batch},
                            {"head", block.q_block.head},
                            {"q_block", block.q_block.q_block},
                            {"state", name_of(block.reach)}};
        const bool begun = block.reach != Reach::not_begun;
        const StageInfo& info = stage_info(block.stage);
        one["stage"] = begun ? ordered_json(info.name) : ordered_json();
        one["kv_tile"] = begun && info.per_kv_tile ? ordered_json(block.kv_tile) : ordered_json();
        one["whole"] = begun ? ordered_json(block.whole) : ordered_json();
        json["blocks"].push_back(std::move(one));
    }
    return json;
}

ordered_json to_json(const std::vector<Drift>& drift) {
    ordered_json json = {
        {"m", ordered_json::array()}, {"l", ordered_json::array()}, {"acc", ordered_json::array()}};
    for (const Drift& tile : drift) {
        json["m"].push_back(number(tile.m));
        json["l"].push_back(number(tile.l));
        json["acc"].push_back(number(tile.acc));
    }
    return json;
}

/// Where the kernel's own output was captured.
ordered_json kernel_json(const ReferenceOutput& output) {
    constexpr std::array closer = {"neither", "kernel", "reference"};
    if (output.to_kernel.elements == 0) return {};
    return {{"compared", output.to_kernel.elements},
            {"nonfinite", output.lost},
            {"rms", number(output.to_kernel.rms())},
            {"max_abs", number(output.to_kernel.largest)},
            {"kernel_to_oracle_rms", number(output.kernel_to_oracle.rms())},
            {"reference_to_oracle_rms", number(output.shared_to_oracle.rms())},
            {"closer_to_oracle", closer[static_cast<std::size_t>(closer_to_oracle(output))]}};
}

ordered_json to_json(const ReferenceReport& reference, Stage stage, EmptyRow declared) {
    if (!reference.info.has(stage)) return {};
    const ReferenceOutput& output = reference.output(stage);
    ordered_json json;
    if (stage == Stage::o) json["dtype"] = dtype_info(reference.info.dtype_o).name;
    if (stage == Stage::lse) json["log_base"] = reference.info.lse_log_base == LogBase::two ? "2" : "e";
    json["compared"] = output.tally.compared;
    json["outside"] = output.tally.outside;
    json["nonfinite"] = output.nonfinite();
    json["first"] = optional_json(stage_info(stage).name, output.tally.first);
    json["max_abs"] = number(output.to_oracle.largest);
    json["rms"] = number(output.to_oracle.rms());
    json["other_empty_rows"] = ordered_json::array();
    for (const EmptyRow empty : other_empty_rows(output, declared))
        json["other_empty_rows"].push_back(name_of(empty));
    json["kernel"] = kernel_json(output);
    return json;
}

/// Keys `references`, `closest_reference` and, where others are as close, `tied_references`.
void add_references(const Report& report, ordered_json& json) {
    json["references"] = ordered_json::array();
    for (const ReferenceReport& reference : report.references) {
        json["references"].push_back({{"name", reference.info.name},
                                      {"o", to_json(reference, Stage::o, report.units.o_empty_row)},
                                      {"lse", to_json(reference, Stage::lse, report.units.lse_empty_row)}});
    }
    const std::vector<std::size_t> closest = closest_references(report.references);
    json["closest_reference"] = nullptr;
    json["tied_references"] = ordered_json::array();
    for (std::size_t i = 0; i < closest.size(); ++i) {
        const std::string& name = report.references[closest[i]].info.name;
        if (i == 0) {
            json["closest_reference"] = name;
        } else {
            json["tied_references"].push_back(name);
        }
    }
}

ordered_json to_json(const FoundCause& cause) {
    ordered_json parameters = ordered_json::object();
    for (const CauseParameter& parameter : cause.parameters) parameters[parameter.name] = parameter.value;
    ordered_json rewrites = ordered_json::array();
    for (const CauseParameter& rewrite : cause.rewrites)
        rewrites.push_back({{"slot", rewrite.name}, {"becomes", rewrite.value}});
    return {{"name", cause.name},
            {"family", cause.family},
            {"stage", stage_info(cause.stage).name},
            {"says", says_of(cause)},
            {"explained_before", cause.explained_before},
            {"explained_after", cause.explained_after},
            {"elements", cause.elements},
            {"not_determined", cause.not_determined},
            {"parameters", std::move(parameters)},
            {"rewrites", std::move(rewrites)},
            {"changes", changes_json(cause.slots)},
            {"free_parameters", cause.free_parameters},
            {"bits", cause.bits},
            {"listed_bits", cause.listed_bits},
            {"where", cause.where},
            {"look_at", look_at_of(cause)},
            {"rank", cause.rank},
            {"legal", cause.legal},
            {"leaves_rest", cause.leaves_rest},
            {"structural", cause.structural},
            {"race_looks_the_same", cause.race_alike},
            {"to_tell_a_race", cause.race_alike ? ordered_json(how_to_tell_a_race) : ordered_json()}};
}

ordered_json to_json(const std::vector<FoundCause>& causes) {
    ordered_json json = ordered_json::array();
    for (const FoundCause& cause : causes) json.push_back(to_json(cause));
    return json;
}

ordered_json to_json(const std::vector<Stage>& stages) {
    ordered_json names = ordered_json::array();
    for (const Stage stage : stages) names.push_back(stage_info(stage).name);
    return names;
}

ordered_json to_json(const StageAnswer& answer) {
    return {{"stage", stage_info(answer.stage).name},
            {"answer", to_string(answer.kind)},
            {"cause", answer.made_in ? ordered_json(answer.cause) : ordered_json()},
            {"made_in", answer.made_in ? ordered_json(stage_info(*answer.made_in).name) : ordered_json()},
            {"right_with_computed", to_json(answer.computed)},
            {"made_again", answer.made_again}};
}

ordered_json to_json(const ThreadSet& set) {
    ordered_json numbers = ordered_json::array();
    for (std::size_t i = 0; i < set.wrong.size(); ++i)
        if (set.wrong[i]) numbers.push_back(i);
    return numbers;
}

/// Null where threads are not declared, or do not tell right from wrong.
ordered_json to_json(const std::optional<WrongThreads>& threads) {
    if (!threads) return {};
    return {{"where", threads->says},
            {"warps", to_json(threads->warps)},
            {"lanes", to_json(threads->lanes)},
            {"registers", to_json(threads->registers)},
            {"warps_of_block", threads->warps_of_block},
            {"registers_of_thread", threads->registers_of_thread},
            {"among_right_ones", threads->among_right_ones}};
}

/// `cause` is null where none was found that a replay knows.
ordered_json to_json(const Prediction& prediction) {
    return {{"of", prediction.of},
            {"cause", prediction.cause ? to_json(*prediction.cause) : ordered_json()},
            {"compared", prediction.compared},
            {"wrong", prediction.wrong},
            {"left", prediction.left},
            {"elsewhere", prediction.elsewhere},
            {"holds", prediction.holds()}};
}

ordered_json to_json(const SearchEnd& end) {
    return {{"cut_off", end.cut_off}, {"failed", end.failed}};
}

/// `causes` is null where nothing was searched, and empty where nothing was found.
void add_causes(const Diagnosis& diagnosis, ordered_json& json) {
    if (diagnosis.suggestion) {
        ordered_json assignments = ordered_json::object();
        for (const auto& [name, value] : diagnosis.suggestion->assignments) assignments[name] = value;
        const std::optional<Stage> then = diagnosis.suggestion->then;
        json["declare"] = {{"assignments", std::move(assignments)},
                           {"then", then ? ordered_json(stage_info(*then).name) : ordered_json()}};
        // As the causes of the report: null where nothing was searched.
        if (then) {
            json["declare"]["causes"] =
                diagnosis.suggestion->searched ? to_json(diagnosis.suggestion->causes) : ordered_json();
            json["declare"]["search"] = to_json(diagnosis.suggestion->end);
        }
    }
    json["causes"] = diagnosis.searched ? to_json(diagnosis.causes) : ordered_json();
    json["search"] = to_json(diagnosis.end);
    json["further_causes"] = to_json(diagnosis.then);
    json["places"] = diagnosis.places;
    json["wrong_threads"] = to_json(diagnosis.threads);
    json["separate_with"] = diagnosis.separate_with;
    json["record_next"] = to_json(diagnosis.record_next);
    json["answers"] = ordered_json::array();
    for (const StageAnswer& answer : diagnosis.answers) json["answers"].push_back(to_json(answer));
    if (diagnosis.prediction) json["predicted"] = to_json(*diagnosis.prediction);
}

ordered_json to_json(const Problem& p) {
    return {{"direction", p.direction == Direction::backward ? "backward" : "forward"},
            {"batch", p.batch},
            {"heads", p.heads},
            {"heads_kv", p.heads_kv},
            {"seqlen_q", p.seqlen_q},
            {"seqlen_kv", p.seqlen_kv},
            {"head_dim", p.head_dim},
            {"head_dim_v", p.head_dim_v},
            {"block_m", p.block_m},
            {"block_n", p.block_n},
            {"sm_scale", p.sm_scale},
            {"mask", p.mask == Mask::causal ? "causal" : "none"}};
}

/// Names that are no UTF-8 are still reported.
std::string dump(const ordered_json& json) {
    return json.dump(2, ' ', true, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_json(const Report& report) {
    ordered_json json;
    const bool match = report.verdict == Verdict::match;
    json["report_version"] = report_version;
    json["verdict"] = !report.unjudged.empty() ? "unjudged" : match ? "match" : "diverged";
    if (!report.unjudged.empty()) json["reason"] = one_line(report.unjudged);
    json["recording"] = report.recording;
    if (!report.other.empty()) json["other"] = report.other;
    json["kernel"] = report.provenance.kernel;
    json["device"] = report.provenance.device;
    json["command"] = report.provenance.command;
    json["ended"] = report.ended;
    json["reached"] = report.reached ? to_json(*report.reached) : ordered_json();
    json["problem"] = to_json(report.problem);
    json["options"] = report.options;
    json["first_divergence"] = first_divergence_json(report);
    json["stages"] = ordered_json::array();
    for (const StageInfo& info : stages_of(report.problem)) {
        if (!is_named(info.stage) || report.stage(info.stage).captured)
            json["stages"].push_back(to_json(info, report.stage(info.stage)));
    }
    json["without_reference"] = report.without_reference;
    if (report.guilty) json["bad_rows"] = bad_rows_json(report.stage(*report.guilty).tally);
    json["drift"] = to_json(report.drift);
    add_references(report, json);
    add_causes(report.diagnosis, json);
    if (report.atol || report.rtol) {
        json["tolerances"] = {{"atol", report.atol.value_or(0)}, {"rtol", report.rtol.value_or(0)}};
    } else {
        json["tolerances"] = {{"confidence", report.confidence}};
    }
    json["warnings"] = report.warnings;
    json["summary"] = verdict_line(report);
    return dump(json);
}

std::string unjudged_json(const std::string& recording, const std::string& reason) {
    const ordered_json json = {
        {"report_version", report_version},
        {"verdict", "unjudged"},
        {"recording", recording},
        {"reason", reason},
        {"first_divergence", nullptr},
        {"stages", ordered_json::array()},
        {"drift",
         {{"m", ordered_json::array()}, {"l", ordered_json::array()}, {"acc", ordered_json::array()}}},
        {"references", ordered_json::array()},
        {"closest_reference", nullptr},
        {"tied_references", ordered_json::array()},
        {"causes", nullptr}};
    return dump(json);
}

}  // namespace tilescope
