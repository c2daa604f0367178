#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dump/file/identity.h"
#include "dump/program/command_line.h"
#include "dump/program/program.h"
#include "dump/reader.h"
#include "dump/recording/recording_view.h"
#include "dump/schema/declarations.h"
#include "dump/schema/error.h"
#include "dump/schema/families.h"
#include "dump/schema/shell_word.h"
#include "dump/schema/text.h"
#include "dump/writer.h"
#include "oracle/causes/find_causes.h"
#include "oracle/causes/prediction.h"
#include "oracle/causes/replayed.h"
#include "oracle/causes/same_run.h"
#include "oracle/causes/suggest.h"
#include "oracle/causes/table.h"
#include "oracle/explain/explain.h"
#include "oracle/heatmap/exhibits.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/judge.h"
#include "oracle/judge/report.h"
#include "oracle/report/npy.h"
#include "oracle/report/outputs.h"
#include "oracle/report/progress.h"
#include "oracle/report/text.h"

namespace tilescope {
namespace {

enum ExitCode { exit_match = 0, exit_diverged = 1, exit_unjudged = 2 };

struct Arguments {
    std::string command;  ///< all of it, for who reads a report
    std::string recording;
    std::string other;
    std::string json;
    std::vector<std::string> reports;  ///< NAME=FILE
    std::string npy;
    std::string png;
    std::string like;                       ///< a family of kernels
    std::vector<std::string> declarations;  ///< NAME=VALUE
    std::string element;                    ///< whose tolerance is explained; empty: the recording is judged
    std::string replay;
    std::string cause_of;              ///< a recording whose mistake is tried on this one
    std::vector<std::string> without;  ///< causes that are not searched for
    bool no_causes = false;
    bool same_run = false;
    bool suggest = false;
    JudgeOptions judge;
};

/// An infinite tolerance would compare nothing, and NaN would fail everything.
const CLI::Validator tolerance(
    [](std::string& text) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value >= 0;
        return fine ? std::string() : text + " is not a finite number from 0 on";
    },
    "");

const CLI::Validator named([](std::string& text) { return text.empty() ? "has no name" : ""; }, "");

const CLI::Validator name_and_file(
    [](std::string& text) {
        const ReportOutput output = report_output(text);
        if (output.format != nullptr && !output.path.empty()) return std::string();
        return text + " is not NAME=FILE with one of " + names_of_formats();
    },
    "");

const CLI::Validator cause_name(
    [](std::string& text) {
        const bool is_one = std::ranges::find(all_causes(), text, &Cause::name) != all_causes().end();
        return is_one ? std::string() : text + " is no cause; oracle/CAUSES.md has the table";
    },
    "");

std::string names_of_families() {
    std::string names;
    for (const declarations::Family& family : declarations::all_families())
        names += fmt::format("{}{}", names.empty() ? "" : ", ", family.name);
    return names;
}

std::vector<ReportOutput> report_outputs(const Arguments& arguments) {
    std::vector<ReportOutput> outputs;
    if (!arguments.json.empty()) outputs.push_back({report_format("json"), arguments.json});
    for (const std::string& report : arguments.reports) outputs.push_back(report_output(report));
    return outputs;
}

void declare_declarations(CLI::App& app, Arguments& arguments) {
    app.add_option("--like", arguments.like,
                   "judge as if the recording declared what kernels of a family do: " + names_of_families() +
                       ";\n--declare comes after it")
        ->type_name("FAMILY")
        ->check(named)
        ->excludes("other");
    app.add_option("--declare", arguments.declarations,
                   "judge as if the recording declared it, for example s.scaled=false; may be given again")
        ->type_name("NAME=VALUE")
        ->allow_extra_args(false)
        ->excludes("other");
}

/// Leaves no room for what is printed beside it.
void declare_suggest(CLI::App& app, Arguments& arguments) {
    const std::vector<std::string> other_outputs = {"--report",     "--json",      "--npy",
                                                    "--png",        "--atol",      "--rtol",
                                                    "--replay-out", "--no-causes", "--explain-tolerance",
                                                    "--cause-of"};
    CLI::Option* const suggest =
        app.add_flag("--suggest", arguments.suggest,
                     "print only the declarations that get further, as options for tile-diff, and on stderr\n"
                     "what they lead to and how they are written. The exit code is that of the recording as "
                     "it is");
    suggest->excludes("other");
    for (const std::string& option : other_outputs) suggest->excludes(option);
}

void declare_causes(CLI::App& app, Arguments& arguments) {
    app.add_option("--replay-out", arguments.replay,
                   "write the recording to FILE as a kernel with the mistake that was found computes it")
        ->type_name("FILE")
        ->check(named)
        ->excludes("other");
    app.add_option("--cause-of", arguments.cause_of,
                   "find the mistake of this recording, and say whether it explains the other one as well")
        ->type_name("FILE")
        ->check(named)
        ->excludes("other");
    app.add_flag("--no-causes", arguments.no_causes,
                 "do not search for the mistake that explains what diverges")
        ->excludes("--replay-out");
    app.add_option(
           "--without-cause", arguments.without,
           "leave a cause out of the search, such as one that was ruled out by hand; may be given again")
        ->type_name("NAME")
        ->check(cause_name)
        ->allow_extra_args(false)
        ->excludes("other", "--no-causes");
}

void declare(CLI::App& app, Arguments& arguments) {
    app.description(
        "Judges a recording of an attention kernel: which stage went wrong first, and where.\n"
        "Exit code: 0 it matches, 1 it diverges, 2 it could not be judged.");
    app.add_option("recording", arguments.recording, "the recording, run.h5")->required();
    app.add_option("other", arguments.other, "compare with this recording instead of the float64 oracle");
    app.add_option("--report", arguments.reports,
                   "write the report to FILE, or - for stdout in place of the text; may be given again.\n"
                   "NAME is one of " +
                       names_of_formats())
        ->type_name("NAME=FILE")
        ->check(name_and_file)
        ->allow_extra_args(false);
    app.add_option("--json", arguments.json, "the same as --report json=FILE")
        ->type_name("FILE")
        ->check(named);
    declare_declarations(app, arguments);
    app.add_option("--npy", arguments.npy,
                   "write got, expected and difference of the first wrong stage to DIR")
        ->type_name("DIR")
        ->check(named);
    app.add_option("--png", arguments.png,
                   "render the first wrong stage to DIR: dumped, expected, difference, over_budget")
        ->type_name("DIR")
        ->check(named);
    app.add_option("--atol", arguments.judge.compare.atol, "absolute tolerance, in place of the derived one")
        ->check(tolerance);
    app.add_option("--rtol", arguments.judge.compare.rtol,
                   "tolerance relative to the expected value, likewise")
        ->check(tolerance);
    app.add_option("--top", arguments.judge.compare.top, "worst elements to show")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    app.add_option("--threads", arguments.judge.threads, "threads, 0 for one a core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
    app.add_flag("--same-run", arguments.same_run,
                 "both recordings are of the same run: what differs in any bit is a race, or memory read "
                 "before it is written")
        ->needs("other")
        ->excludes("--npy", "--png", "--atol", "--rtol", "--declare", "--like");
    declare_causes(app, arguments);
    app.add_option("--explain-tolerance", arguments.element,
                   "print what the tolerance of one element is made of, and nothing else; exit code 0.\n"
                   "ROW is a q row (k, v: a key), COL a key (s, p), a feature, a lane (l), or 0\n"
                   "(m, lse). KV_TILE is for m, l and acc (default: the last tile that the\n"
                   "row's block sees), and for k and v the query block (default: 0)")
        ->type_name("STAGE,BATCH,HEAD,ROW,COL[,KV_TILE]")
        ->check(named)
        ->excludes("other", "--report", "--json", "--npy", "--png", "--atol", "--rtol", "--cause-of");
    declare_suggest(app, arguments);
}

void spare_recordings(const Arguments& arguments) {
    std::vector<std::string> outputs = {arguments.replay};
    for (const ReportOutput& output : report_outputs(arguments)) {
        if (!output.is_stdout()) outputs.push_back(output.path);
    }
    const auto add = [&](const auto& files) { outputs.insert(outputs.end(), files.begin(), files.end()); };
    if (!arguments.npy.empty()) add(npy_files(arguments.npy));
    if (!arguments.png.empty()) add(heatmap_files(arguments.png));
    spare_inputs(std::vector{arguments.recording, arguments.other, arguments.cause_of}, outputs);
}

/// The recording, as if what --like and --declare say stood in it.
class OpenedRecording {
 public:
    /// Errors: Error for what is no declaration, or none that the recording can have.
    OpenedRecording(const std::string& path, const Arguments& arguments) : file_(open_recording(path)) {
        if (arguments.declarations.empty() && arguments.like.empty()) return;
        Problem problem = file_->problem();
        Units units = file_->units();
        if (!arguments.like.empty()) declarations::declare_family(arguments.like, problem, units);
        for (const std::string& assignment : arguments.declarations)
            declarations::declare(assignment, problem, units);
        declared_.emplace(*file_, problem, units);
    }

    const Recording& operator*() const {
        return declared_ ? static_cast<const Recording&>(*declared_) : *file_;
    }
    const Recording* operator->() const { return &**this; }

 private:
    std::unique_ptr<Recording> file_;
    std::optional<DeclaredAs> declared_;
};

CauseOptions cause_options(const Arguments& arguments) {
    CauseOptions options;
    options.compare = arguments.judge.compare;
    options.threads = arguments.judge.threads;
    options.without = arguments.without;
    return options;
}

/// Whether the mistake of `arguments.cause_of` explains the report's recording.
Prediction predict_arguments(const Arguments& arguments, const Recording& recording, const Report& report) {
    const OpenedRecording first(arguments.cause_of, arguments);
    const CauseOptions options = cause_options(arguments);
    const std::vector<FoundCause> causes =
        find_causes(*first, judge(*first, arguments.judge), options).causes;
    Prediction prediction;
    if (!causes.empty() && !causes[0].structural)
        prediction = predict(causes[0], first->problem(), recording, report, options);
    prediction.of = first->name();
    first->require_unchanged();
    return prediction;
}

bool want_pictures(const Arguments& arguments) {
    return std::ranges::any_of(report_outputs(arguments),
                               [](const ReportOutput& output) { return output.format->has_pictures; });
}

/// `pictures` gets a line that names the heatmaps, where they are asked for, and `exhibits` the pictures of reports.
Report judge_arguments(const Arguments& arguments, std::string& pictures, Exhibits& exhibits) {
    const OpenedRecording recording(arguments.recording, arguments);
    std::unique_ptr<Recording> other;
    if (!arguments.other.empty()) other = open_recording(arguments.other);

    Progress progress("judging");
    JudgeOptions options = arguments.judge;
    options.progress = [&](std::int64_t done, std::int64_t total) { progress.update(done, total); };
    ExhibitFinder finder(*recording, other.get(), options.compare);
    if (want_pictures(arguments)) options.observe = finder.observer();
    Report report = other ? judge_pair(*recording, *other, options) : judge(*recording, options);
    if (!arguments.no_causes)
        report.diagnosis = causes_and_declarations(*recording, report, cause_options(arguments));
    if (!arguments.cause_of.empty())
        report.diagnosis.prediction = predict_arguments(arguments, *recording, report);
    if (!arguments.replay.empty()) {
        if (report.diagnosis.causes.empty())
            throw Error("no cause was found to replay", arguments.recording, "leave --replay-out out");
        write_recording(arguments.replay,
                        ReplayedRecording(*recording, report.diagnosis.causes[0], report.confidence));
    }
    if (!arguments.npy.empty()) write_npy(arguments.npy, report, *recording, other.get(), arguments.judge);
    if (!arguments.png.empty())
        pictures = write_heatmaps(arguments.png, report, *recording, other.get(), arguments.judge) + "\n";
    if (want_pictures(arguments)) exhibits.pictures = finder.pictures(report, arguments.judge);
    recording->require_unchanged();
    if (other) other->require_unchanged();
    return report;
}

/// Also when the reader of a pipe has gone, or the disk is full.
void write_to_stdout(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0) {
        throw Error(std::string("cannot be written: ") + std::strerror(errno), "stdout",
                    "redirect it to a place that can be written");
    }
}

/// Options that get it further go to stdout, where they lead is told on stderr.
ExitCode suggest_arguments(const Arguments& arguments) {
    const OpenedRecording recording(arguments.recording, arguments);
    const auto report_of = [&] {
        try {
            return judge(*recording, arguments.judge);
        } catch (const NoVerdict& unjudged) {
            return unjudged.report();
        }
    };
    Report report = report_of();
    report.diagnosis.suggestion = suggest_declarations(*recording, report, arguments.judge.threads);
    recording->require_unchanged();
    write_to_stdout(readable(suggestion_arguments(report)));
    fmt::print(stderr, "{}", readable(suggestion_advice(report)));
    if (!report.unjudged.empty()) return exit_unjudged;
    return report.verdict == Verdict::match ? exit_match : exit_diverged;
}

std::string explain_element(const Arguments& arguments) {
    const OpenedRecording recording(arguments.recording, arguments);
    const ElementPlace place = element_place(*recording, arguments.element);
    const std::string text = to_text(explain_tolerance(*recording, place, arguments.judge.confidence));
    recording->require_unchanged();
    return text;
}

SameRun compare_arguments(const Arguments& arguments) {
    const std::unique_ptr<Recording> first = open_recording(arguments.recording);
    const std::unique_ptr<Recording> second = open_recording(arguments.other);
    SameRun runs = compare_same_run(*first, *second);
    first->require_unchanged();
    second->require_unchanged();
    return runs;
}

ExitCode code_of(const Outcome& outcome) {
    if (const auto* report = std::get_if<Report>(&outcome))
        return report->verdict == Verdict::match ? exit_match : exit_diverged;
    return std::get<SameRun>(outcome).changed() == nullptr ? exit_match : exit_diverged;
}

int run(const Arguments& arguments) {
    ReportFiles files;
    ExitCode code = exit_unjudged;
    std::string text;
    Outcome outcome;
    Exhibits exhibits{arguments.command, {}};
    const auto cannot_judge = [&](const std::string& why) {
        fmt::print(stderr, "tile-diff: {}\n", one_line(why));
        outcome = Unjudged{arguments.recording, one_line(why)};
    };
    try {
        spare_recordings(arguments);
        files.open(report_outputs(arguments));
        if (!arguments.element.empty()) {
            text = explain_element(arguments);
            code = exit_match;
        } else if (arguments.suggest) {
            code = suggest_arguments(arguments);
        } else {
            if (arguments.same_run) {
                outcome = compare_arguments(arguments);
            } else {
                outcome = judge_arguments(arguments, text, exhibits);
            }
            text += report_format("text")->render(outcome, exhibits);
            code = code_of(outcome);
        }
    } catch (const NoVerdict& unjudged) {
        cannot_judge(unjudged.what());
        outcome = unjudged.report();
        text = report_format("text")->render(outcome, exhibits);
    } catch (const std::bad_alloc&) {
        cannot_judge(arguments.recording + ": not enough memory; use fewer --threads or a larger machine");
    } catch (const std::exception& error) {
        cannot_judge(error.what());
    }

    try {
        files.write(outcome, exhibits);
        const ReportFormat* printed = files.to_stdout();
        write_to_stdout(printed != nullptr ? printed->render(outcome, exhibits) : readable(text));
    } catch (const std::exception& error) {
        if (code != exit_unjudged) cannot_judge(error.what());
        return exit_unjudged;
    }
    return code;
}

/// When the process that judged has ended without a word.
int give_up(const Arguments& arguments, const std::string& how) {
    const std::string why = one_line(arguments.recording + ": judging it does not end (" + how +
                                     "); allow more memory and threads, or record it again");
    fmt::print(stderr, "tile-diff: {}\n", why);
    try {
        spare_recordings(arguments);
        ReportFiles files;
        files.open(report_outputs(arguments));
        const Outcome outcome = Unjudged{arguments.recording, why};
        const Exhibits exhibits{arguments.command, {}};
        files.write(outcome, exhibits);
        if (files.to_stdout() != nullptr) write_to_stdout(files.to_stdout()->render(outcome, exhibits));
    } catch (const std::exception&) {
        // One line says enough.
    }
    return exit_unjudged;
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    // A closed pipe is an error of the write, not a signal.
    std::signal(SIGPIPE, SIG_IGN);
    CLI::App app("", "tile-diff");
    tilescope::Arguments arguments;
    tilescope::declare(app, arguments);
    arguments.command = "tile-diff";
    for (int i = 1; i < argc; ++i) arguments.command += " " + tilescope::shell_word(argv[i]);
    try {
        const std::string help = tilescope::parse_command_line(app, {argv + 1, argv + argc});
        if (!help.empty()) {
            fmt::print("{}", help);
            return tilescope::exit_match;
        }
    } catch (const tilescope::Error& error) {
        fmt::print(stderr, "tile-diff: {}\n", error.what());
        return tilescope::exit_unjudged;
    }
    return tilescope::run_supervised(
        [&] { return tilescope::run(arguments); },
        [&](const std::string& how) { return tilescope::give_up(arguments, how); });
}
