#include "oracle/cli/judge_one.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "dump/program_file.h"
#include "dump/reader.h"
#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "dump/schema/error.h"
#include "dump/schema/families.h"
#include "dump/schema/text.h"
#include "dump/writer.h"
#include "oracle/causes/attempts.h"
#include "oracle/causes/find_causes.h"
#include "oracle/causes/prediction.h"
#include "oracle/causes/replayed.h"
#include "oracle/causes/suggest.h"
#include "oracle/cli/judge_program_file.h"
#include "oracle/cli/progress.h"
#include "oracle/explain/explain.h"
#include "oracle/heatmap/exhibits.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/judge/in_every_process.h"
#include "oracle/judge/share_pieces.h"
#include "oracle/program/attention.h"
#include "oracle/ranks/judge_ranks.h"
#include "oracle/report/npy.h"
#include "oracle/report/text.h"
#include "oracle/runs/same_run.h"

namespace tilescope {

namespace {

/// A recording, as if other things were declared in it.
class DeclaredFile final : public DeclaredAs {
 public:
    DeclaredFile(std::unique_ptr<Recording> file, const Problem& problem, const Units& units)
        : DeclaredAs(*file, problem, units), file_(std::move(file)) {}

 private:
    std::unique_ptr<Recording> file_;
};

/// The recording, as if what --like and --declare say stood in it. Errors: Error for what is no declaration, or none that
/// the recording can have.
std::unique_ptr<Recording> open_declared(const std::string& path, const Arguments& arguments,
                                         const Open& open = open_recording) {
    std::unique_ptr<Recording> file = open(path);
    if (arguments.declarations.empty() && arguments.like.empty()) return file;
    Problem problem = file->problem();
    Units units = file->units();
    if (!arguments.like.empty()) declarations::declare_family(arguments.like, problem, units);
    for (const std::string& assignment : arguments.declarations)
        declarations::declare(assignment, problem, units);
    return std::make_unique<DeclaredFile>(std::move(file), problem, units);
}

CauseOptions cause_options(const Arguments& arguments) {
    CauseOptions options;
    options.compare = arguments.judge.compare;
    options.threads = arguments.judge.threads;
    options.without = arguments.without;
    if (arguments.search_all) options.effort = Effort::unbounded;
    return options;
}

/// Whether the mistake of `arguments.cause_of` explains the report's recording.
void predict_arguments(const JudgePlan& plan, const Recording& recording, Report& report) {
    const Arguments& arguments = plan.arguments;
    const CauseOptions options = cause_options(arguments);
    Attempts attempts(options.effort, {}, {});
    attempts.uncounted(SearchPart::prediction, [&] {
        const std::unique_ptr<Recording> first = open_declared(arguments.cause_of, arguments, plan.open);
        const Diagnosis diagnosis = find_causes(*first, judge(*first, arguments.judge), options);
        const std::vector<FoundCause>& causes = diagnosis.causes;
        report.diagnosis.end.add(diagnosis.end);
        Prediction prediction;
        if (!causes.empty() && causes[0].changes)
            prediction = predict(causes[0], first->problem(), recording, report, options);
        prediction.of = first->name();
        first->require_unchanged();
        report.diagnosis.prediction = std::move(prediction);
    });
    report.diagnosis.end.add(attempts.end());
}

bool want_pictures(const JudgePlan& plan) {
    return std::ranges::any_of(plan.outputs,
                               [](const ReportOutput& output) { return output.format->has_pictures; });
}

/// How it came out, with what is shown beside it.
struct Shown {
    Outcome outcome;
    Exhibits exhibits;
    std::string pictures;  ///< a line that names the heatmaps that were written
};

/// What --stage, --row and --tile show of the report. Errors: Error where the recording has no such stage.
void narrow_report(const Arguments& arguments, const std::string& path, Report& report) {
    report.narrowed_row = arguments.judge.compare.only_row;
    report.narrowed_kv_tile = arguments.judge.compare.only_kv_tile;
    if (arguments.stage.empty()) return;
    std::string names;
    for (const StageInfo& info : stages_of(report.problem)) {
        if (!report.stage(info.stage).captured) continue;
        names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
        if (info.name == arguments.stage) report.narrowed_to = info.stage;
    }
    if (!report.narrowed_to)
        throw Error(fmt::format("it has no stage {} for --stage", arguments.stage), path,
                    "choose one of " + names);
}

Report judge_recording(const FoundPath& found, const JudgePlan& plan, Shown& shown) {
    const std::string& path = found.path;
    const Arguments& arguments = plan.arguments;
    SharingOr sharing(plan.sharing);
    std::unique_ptr<Recording> recording;
    std::unique_ptr<Recording> other;
    std::optional<ExhibitFinder> finder;
    Report report = in_every_process(*sharing, [&] {
        recording = open_declared(path, arguments, plan.open);
        if (!found.against.empty()) other = plan.open(found.against);
        std::optional<Progress> progress;
        if (plan.alone && sharing->process() == 0) progress.emplace("judging", "");
        JudgeOptions options = arguments.judge;
        options.sharing = plan.sharing;
        options.progress = [&](std::int64_t done, std::int64_t total) {
            if (progress) progress->update(done, total);
        };
        finder.emplace(*recording, other.get(), options.compare);
        if (want_pictures(plan)) options.observe = finder->observer();
        Report judged = other ? judge_pair(*recording, *other, options) : judge(*recording, options);
        finder->fold_what_it_saw(*sharing);
        return judged;
    });
    // The first process tells of it.
    if (sharing->process() != 0) return report;
    narrow_report(arguments, path, report);
    if (plan.searches_causes())
        report.diagnosis = causes_and_declarations(*recording, report, cause_options(arguments));
    if (!plan.search_died.empty())
        report.diagnosis.end.failed.push_back("the search for causes: " + plan.search_died);
    if (!arguments.cause_of.empty() && plan.search_died.empty()) predict_arguments(plan, *recording, report);
    if (!arguments.replay.empty()) {
        if (report.diagnosis.causes.empty())
            throw Error("no cause was found to replay", path, "leave --replay-out out");
        write_recording(arguments.replay,
                        ReplayedRecording(*recording, report.diagnosis.causes[0], report.confidence));
    }
    if (!arguments.npy.empty()) write_npy(arguments.npy, report, *recording, other.get(), arguments.judge);
    if (!arguments.png.empty())
        shown.pictures =
            write_heatmaps(arguments.png, report, *recording, other.get(), arguments.judge) + "\n";
    if (want_pictures(plan)) shown.exhibits.pictures = finder->pictures(report, arguments.judge);
    recording->require_unchanged();
    if (other) other->require_unchanged();
    return report;
}

/// Collective. Trying a file takes longer than opening it: of many, each process tries some.
Open open_of_shards(const std::vector<std::string>& shards, const JudgePlan& plan, WorkSharing& sharing) {
    if (sharing.processes() == 1) return plan.open;
    constexpr int one_thread = 1;
    std::vector<WorkSharing::Stretch> stretches;
    for (const std::string& shard : shards) stretches.push_back({1, sharing.home_of(shard)});
    share_pieces<bool>(stretches, one_thread, sharing, [&](std::int64_t i) {
        plan.open(shards[std::size_t(i)]);
        return true;
    });
    return plan.open_tried;
}

/// Errors: Error where the shards are compared with something, and those of judge_ranks().
RankReport judge_shards(const FoundPath& found, const JudgePlan& plan) {
    const Arguments& arguments = plan.arguments;
    if (!found.against.empty())
        throw Error("is a run of several ranks, and what it is compared with a recording", found.path,
                    "compare it with the folder of another run, or two recordings of one rank and step");
    const CompareOptions& compare = arguments.judge.compare;
    if (!arguments.stage.empty() || compare.only_row || compare.only_kv_tile || !arguments.cause_of.empty())
        throw Error("is a run of several ranks, of which --stage, --row, --tile and --cause-of say nothing",
                    found.path, "name one of its recordings");
    SharingOr sharing(plan.sharing);
    return in_every_process(*sharing, [&] {
        std::vector<std::unique_ptr<Recording>> parts;
        const Open open = open_of_shards(found.shards, plan, *sharing);
        for (const std::string& shard : found.shards) parts.push_back(open_declared(shard, arguments, open));
        const RunOfRanks run(std::move(parts));
        RankOptions options;
        options.judge = arguments.judge;
        options.judge.sharing = plan.sharing;
        options.causes = cause_options(arguments);
        options.search_causes = plan.searches_causes();
        RankReport report = judge_ranks(run, found.path, options);
        for (const auto& part : run.parts()) part->require_unchanged();
        return report;
    });
}

SameRun compare_recordings(const FoundPath& found, const JudgePlan& plan) {
    const std::unique_ptr<Recording> first = plan.open(found.path);
    const std::unique_ptr<Recording> second = plan.open(found.against);
    SameRun runs = compare_same_run(*first, *second);
    first->require_unchanged();
    second->require_unchanged();
    return runs;
}

Answer answer_of(Shown& shown, const std::string& complaint, double seconds, const JudgePlan& plan) {
    Answer answer;
    answer.judged = judged_of(shown.outcome);
    answer.judged.seconds = seconds;
    if (const KnownDivergence* const known = find_known(plan.baseline, answer.judged)) {
        answer.judged.came = Came::known;
        answer.judged.reason = known->reason;
        shown.exhibits.known = known->reason;
    }
    answer.complaint = complaint;
    const bool said = std::holds_alternative<Unjudged>(shown.outcome);
    if (!said)
        answer.text = readable(shown.pictures + report_format("text")->alone(shown.outcome, shown.exhibits));
    for (const ReportOutput& output : plan.outputs) {
        answer.reports.push_back(
            plan.alone ? render_alone(*output.format, answer.judged, shown.outcome, shown.exhibits)
                       : output.format->part(answer.judged, shown.outcome, shown.exhibits));
    }
    return answer;
}

void pack(const std::string& field, std::string& bytes) {
    bytes += fmt::format("{}:{}", field.size(), field);
}

std::string unpack(std::string_view& bytes) {
    const std::size_t colon = bytes.find(':');
    const std::size_t size = std::stoul(std::string(bytes.substr(0, colon)));
    std::string field(bytes.substr(colon + 1, size));
    bytes.remove_prefix(colon + 1 + size);
    return field;
}

/// Those that are text.
template <class Answered, class Take>
void each_text(Answered& answer, const Take& take) {
    auto& judged = answer.judged;
    for (auto* field : {&judged.recording, &judged.other, &judged.stage, &judged.place, &judged.cause,
                        &judged.wrong_too, &judged.headline, &judged.reason, &answer.complaint, &answer.text})
        take(*field);
}

}  // namespace

std::string packed(const Answer& answer) {
    std::string bytes;
    each_text(answer, [&](const std::string& field) { pack(field, bytes); });
    pack(fmt::format("{}", int(answer.judged.came)), bytes);
    pack(fmt::format("{}", answer.judged.wrong_share), bytes);
    pack(fmt::format("{}", answer.judged.step), bytes);
    pack(fmt::format("{}", answer.judged.seconds), bytes);
    for (const std::string& report : answer.reports) pack(report, bytes);
    return bytes;
}

Answer unpacked(std::string_view bytes) {
    Answer answer;
    each_text(answer, [&](std::string& field) { field = unpack(bytes); });
    answer.judged.came = static_cast<Came>(std::stoi(unpack(bytes)));
    answer.judged.wrong_share = std::stod(unpack(bytes));
    answer.judged.step = std::stoll(unpack(bytes));
    answer.judged.seconds = std::stod(unpack(bytes));
    while (!bytes.empty()) answer.reports.push_back(unpack(bytes));
    return answer;
}

Answer judge_one(const FoundPath& found, const JudgePlan& plan) {
    const std::string& recording = found.path;
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    Shown shown;
    shown.exhibits.command = plan.arguments.command;
    const bool is_first = plan.sharing == nullptr || plan.sharing->process() == 0;
    if (plan.sharing != nullptr) plan.sharing->blame_nobody();
    try {
        if (!found.shards.empty()) {
            shown.outcome = judge_shards(found, plan);
        } else if (is_program_file(found, plan)) {
            if (!is_first) return {};
            shown.outcome = judge_program_file(found, plan);
        } else if (plan.arguments.same_run && !is_first) {
            return {};
        } else if (plan.arguments.same_run) {
            shown.outcome = compare_recordings(found, plan);
        } else {
            shown.outcome = judge_recording(found, plan, shown);
        }
        if (!is_first) return {};
        const auto* const ranks = std::get_if<RankReport>(&shown.outcome);
        const std::string why = ranks != nullptr && !ranks->diverges() ? ranks->unjudged : "";
        return answer_of(shown, why.empty() ? "" : one_line(recording + ": " + why), seconds(), plan);
    } catch (const NoVerdict& unjudged) {
        shown.outcome = unjudged.report();
        return answer_of(shown, one_line(unjudged.what()), seconds(), plan);
    } catch (const std::bad_alloc&) {
        return cannot_judge(recording,
                            recording + ": not enough memory; use fewer --threads or a larger machine", plan);
    } catch (const std::exception& error) {
        return cannot_judge(recording, error.what(), plan);
    }
}

Answer cannot_judge(const std::string& recording, const std::string& why, const JudgePlan& plan) {
    Shown shown;
    shown.exhibits.command = plan.arguments.command;
    shown.outcome = Unjudged{recording, one_line(why)};
    std::string who = plan.judged_by;
    if (plan.sharing != nullptr) who = plan.sharing->blamed();
    return answer_of(shown, one_line(who.empty() ? why : who + ": " + why), 0, plan);
}

namespace {

/// Options that get it further go to stdout, where they lead is told on stderr.
int suggest_arguments(const std::string& path, const Arguments& arguments) {
    const std::unique_ptr<Recording> recording = open_declared(path, arguments);
    const auto report_of = [&] {
        try {
            return judge(*recording, arguments.judge);
        } catch (const NoVerdict& unjudged) {
            return unjudged.report();
        }
    };
    Report report = report_of();
    report.diagnosis = declarations_of(*recording, report, cause_options(arguments));
    recording->require_unchanged();
    write_to_stdout(readable(suggestion_arguments(report)));
    fmt::print(stderr, "{}", readable(suggestion_advice(report)));
    return exit_code_of(judged_of(report).came);
}

std::string explain_element(const std::string& path, const Arguments& arguments) {
    const std::unique_ptr<Recording> recording = open_declared(path, arguments);
    const ElementPlace place = element_place(*recording, arguments.element);
    std::string text = to_text(explain_tolerance(*recording, place, arguments.judge.confidence));
    recording->require_unchanged();
    return text;
}

/// The text, and the sizes that whoever judges by it gives. Errors: Error for what the language has no words for.
std::string attention_as_program(const std::string& path, const Arguments& arguments) {
    const std::unique_ptr<Recording> recording = open_declared(path, arguments);
    const AttentionProgram program = attention_program(*recording);
    if (!program.text)
        throw Error("declares what no program says: " + program.why, path,
                    "see oracle/PROGRAMS.md for what it has no words for");
    std::string sizes;
    for (const auto& [name, size] : attention_inputs(*recording).sizes)
        sizes += fmt::format("{}\"{}\": {}", sizes.empty() ? "" : ", ", name, size);
    recording->require_unchanged();
    return fmt::format("# sizes={{{}}}\n{}", sizes, *program.text);
}

}  // namespace

int answer_question(const std::string& recording, const Arguments& arguments) {
    const bool is_program = holds_program(recording);
    if (is_program) refuse_options_of_attention(recording, arguments);
    if (arguments.suggest) return suggest_arguments(recording, arguments);
    if (arguments.print_program) {
        write_to_stdout(readable(is_program ? read_program_text(recording, arguments)
                                            : attention_as_program(recording, arguments)));
        return exit_code_of(Came::match);
    }
    write_to_stdout(readable(is_program ? explain_program_element(recording, arguments)
                                        : explain_element(recording, arguments)));
    return exit_code_of(Came::match);
}

}  // namespace tilescope
