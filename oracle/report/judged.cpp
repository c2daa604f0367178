#include "oracle/report/judged.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "dump/recording/array_shape.h"
#include "oracle/ranks/run_of_ranks.h"
#include "oracle/report/card.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

struct CameRow {
    Came came;
    std::string_view word;
    int exit_code;
    std::string_view of_several;  ///< after how many
    std::size_t JudgedCounts::*count;
};
constexpr std::array came_rows = {
    CameRow{Came::match, "match", 0, "match", &JudgedCounts::match},
    CameRow{Came::known, "known", 0, "known", &JudgedCounts::known},
    CameRow{Came::diverged, "diverged", 1, "diverged", &JudgedCounts::diverged},
    CameRow{Came::unjudged, "unjudged", 2, "could not be judged", &JudgedCounts::unjudged},
};

const CameRow& row_of(Came came) {
    return *std::ranges::find(came_rows, came, &CameRow::came);
}

std::string stages_wrong_too(const Report& report) {
    std::string names;
    for (const StageInfo& info : stages_of(report.problem)) {
        if (state_of(report, info.stage) == StageState::wrong_too)
            names += fmt::format("{}{}", names.empty() ? "" : " ", info.name);
    }
    return names;
}

std::int64_t step_of(const Shard& shard) {
    return shard.kind == ShardKind::final ? std::numeric_limits<std::int64_t>::max() : shard.step;
}

JudgedRecording judged_in(const Report& report) {
    JudgedRecording judged;
    judged.step = step_of(report.problem.shard);
    judged.recording = report.recording;
    judged.other = report.other;
    judged.came = !report.unjudged.empty()           ? Came::unjudged
                  : report.verdict == Verdict::match ? Came::match
                                                     : Came::diverged;
    judged.headline =
        card_of(report, report.diagnosis, report.diagnosis.searched ? CausesKnown::yes : CausesKnown::no)
            .headline;
    judged.reason = one_line(report.unjudged);
    if (!report.guilty) return judged;
    const StageTally& tally = report.stage(*report.guilty).tally;
    judged.stage = stage_info(report.problem, *report.guilty).name;
    judged.place = tensor_place_of(report.problem, *report.guilty, *report.first_divergence);
    judged.cause = cause_in(report);
    judged.wrong_too = stages_wrong_too(report);
    judged.wrong_share = tally.compared > 0 ? double(tally.outside) / double(tally.compared) : 0;
    return judged;
}

JudgedRecording judged_in(const SameRun& runs) {
    JudgedRecording judged;
    judged.step = step_of(runs.problem.shard);
    judged.recording = runs.first;
    judged.other = runs.second;
    const StageDifference* const changed = runs.changed();
    judged.came = runs.diverges() ? Came::diverged : Came::match;
    judged.headline = summary_of(runs);
    if (runs.arrived) {
        judged.stage = input_name(runs.arrived->input);
        judged.place = runs.arrived->rows.empty() ? "" : "rows " + runs.arrived->rows;
        judged.cause = "transfer_incomplete";
        judged.wrong_share = double(runs.arrived->changed) / double(runs.arrived->compared);
        return judged;
    }
    if (changed == nullptr) return judged;
    judged.stage = stage_info(runs.problem, changed->stage).name;
    judged.place = runs.where;
    judged.cause = runs.inherits() ? "inherited" : runs.is_poisoned ? "read_before_written" : "racing";
    judged.wrong_share = changed->compared > 0 ? double(changed->changed) / double(changed->compared) : 0;
    return judged;
}

JudgedRecording judged_in(const RankReport& report) {
    JudgedRecording judged;
    judged.recording = report.recording;
    judged.came = report.diverges() ? Came::diverged : report.unjudged.empty() ? Came::match : Came::unjudged;
    judged.headline = verdict_line(report);
    judged.reason = one_line(report.unjudged);
    if (!report.diverges()) return judged;
    const RankFault& first = report.faults.front();
    judged.stage = first.stage;
    judged.place =
        text_of_part(report.parts[first.part].shard) + (first.place.empty() ? "" : ", " + first.place);
    judged.cause = !first.cause.empty() ? first.cause : first.searched ? "unexplained" : "not searched";
    judged.wrong_share = first.wrong_share;
    return judged;
}

std::string cause_of_program(const JudgedProgram& program) {
    if (!program.found.mistakes.empty()) {
        const ProgramMistake& mistake = program.found.mistakes.front();
        return mistake.becomes + (mistake.where.empty() ? "" : ", where " + mistake.where);
    }
    if (!program.search_failed.empty()) return "search failed";
    if (!program.searched) return "not searched";
    return program.found.is_cut_off ? "search cut off" : "unexplained";
}

JudgedRecording judged_in(const JudgedProgram& program) {
    const ProgramReport& report = program.report;
    JudgedRecording judged;
    judged.recording = program.recording;
    judged.came = report.first_wrong < 0 ? Came::match : Came::diverged;
    judged.headline = verdict_line(program.program, report);
    if (report.first_wrong < 0) return judged;
    const StageVerdict& wrong = report.verdict_of(report.first_wrong);
    judged.stage = program.program.array(wrong.stage).name;
    if (!wrong.worst.empty()) judged.place = place_text(program.program, wrong.stage, wrong.worst.front());
    judged.cause = cause_of_program(program);
    for (const StageVerdict& stage : report.stages) {
        if (state_of(report, stage) == ProgramStageState::wrong)
            judged.wrong_too +=
                (judged.wrong_too.empty() ? "" : " ") + program.program.array(stage.stage).name;
    }
    judged.wrong_share = double(wrong.outside) / double(wrong.compared);
    return judged;
}

JudgedRecording judged_in(const Unjudged& unjudged) {
    JudgedRecording judged;
    judged.recording = unjudged.recording;
    judged.headline = "unjudged: " + unjudged.reason;
    judged.reason = unjudged.reason;
    return judged;
}

}  // namespace

std::string_view to_string(Came came) {
    return row_of(came).word;
}

int exit_code_of(Came came) {
    return row_of(came).exit_code;
}

std::string cause_in(const Report& report) {
    if (!report.guilty) return "";
    const Diagnosis& diagnosis = report.diagnosis;
    if (diagnosis.suggestion) {
        std::string text = "declare";
        for (const auto& [name, value] : diagnosis.suggestion->assignments)
            text += fmt::format(" {}={}", name, value);
        return text;
    }
    if (!diagnosis.searched) return "not searched";
    if (!diagnosis.causes.empty()) return std::string(diagnosis.causes.front().name);
    return diagnosis.tried_all() ? "unexplained" : diagnosis.end.cut_off ? "search cut off" : "search failed";
}

JudgedRecording judged_of(const Outcome& outcome) {
    return std::visit([](const auto& of) { return judged_in(of); }, outcome);
}

JudgedCounts count_judged(std::span<const JudgedRecording> all) {
    JudgedCounts counts;
    for (const JudgedRecording& judged : all) {
        ++(counts.*row_of(judged.came).count);
        counts.seconds += judged.seconds;
    }
    return counts;
}

std::string counts_text(const JudgedCounts& counts) {
    std::string text;
    std::size_t all = 0;
    for (const CameRow& row : came_rows) {
        const std::size_t count = counts.*row.count;
        all += count;
        if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, row.of_several);
    }
    return fmt::format("{} recording{}{}{}", all, all == 1 ? "" : "s", text.empty() ? "" : ": ", text);
}

int exit_code_of(std::span<const JudgedRecording> all) {
    if (all.empty()) return exit_code_of(Came::unjudged);
    return exit_code_of(std::ranges::max_element(all, {}, &JudgedRecording::came)->came);
}

bool is_worse(const JudgedRecording& one, const JudgedRecording& other) {
    return std::tuple(one.step, -one.wrong_share) < std::tuple(other.step, -other.wrong_share);
}

const JudgedRecording* worst_of(std::span<const JudgedRecording> all) {
    const JudgedRecording* worst = nullptr;
    for (const JudgedRecording& judged : all) {
        if (judged.came != Came::diverged) continue;
        if (worst == nullptr || is_worse(judged, *worst)) worst = &judged;
    }
    return worst;
}

}  // namespace tilescope
