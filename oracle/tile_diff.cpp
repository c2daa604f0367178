#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "dump/command_line.h"
#include "dump/error.h"
#include "dump/file_identity.h"
#include "dump/file_reader.h"
#include "dump/file_writer.h"
#include "dump/program.h"
#include "dump/text.h"
#include "oracle/causes/causes.h"
#include "oracle/causes/replayed.h"
#include "oracle/causes/same_run.h"
#include "oracle/explain.h"
#include "oracle/heatmap/write_heatmaps.h"
#include "oracle/judge.h"
#include "oracle/npy.h"
#include "oracle/output_file.h"
#include "oracle/progress.h"
#include "oracle/report.h"

namespace tilescope {
namespace {

enum ExitCode { exit_match = 0, exit_diverged = 1, exit_unjudged = 2 };

struct Arguments {
    std::string recording;
    std::string other;
    std::string json;
    std::string npy;
    std::string png;
    std::string element;  ///< whose tolerance is explained; empty: the recording is judged
    std::string replay;
    bool no_causes = false;
    bool same_run = false;
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

void declare(CLI::App& app, Arguments& arguments) {
    app.description(
        "Judges a recording of an attention kernel: which stage went wrong first, and where.\n"
        "Exit code: 0 it matches, 1 it diverges, 2 it could not be judged.");
    app.add_option("recording", arguments.recording, "the recording, run.h5")->required();
    app.add_option("other", arguments.other, "compare with this recording instead of the float64 oracle");
    app.add_option("--json", arguments.json,
                   "write the report as JSON to FILE, or - for stdout in place of the text")
        ->type_name("FILE")
        ->check(named);
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
        ->excludes("--npy", "--png", "--atol", "--rtol");
    app.add_option("--replay-out", arguments.replay,
                   "write the recording to FILE as a kernel with the mistake that was found computes it")
        ->type_name("FILE")
        ->check(named)
        ->excludes("other");
    app.add_flag("--no-causes", arguments.no_causes,
                 "do not search for the mistake that explains what diverges")
        ->excludes("--replay-out");
    app.add_option("--explain-tolerance", arguments.element,
                   "print what the tolerance of one element is made of, and nothing else; exit code 0.\n"
                   "ROW is a q row (k, v: a key), COL a key (s, p), a feature, a lane (l), or 0\n"
                   "(m, lse). KV_TILE is for m, l and acc (default: the last tile that the\n"
                   "row's block sees), and for k and v the query block (default: 0)")
        ->type_name("STAGE,BATCH,HEAD,ROW,COL[,KV_TILE]")
        ->check(named)
        ->excludes("other", "--json", "--npy", "--png", "--atol", "--rtol");
}

void spare_recordings(const Arguments& arguments) {
    std::vector<std::string> outputs = {arguments.replay};
    if (arguments.json != "-") outputs.push_back(arguments.json);
    const auto add = [&](const auto& files) { outputs.insert(outputs.end(), files.begin(), files.end()); };
    if (!arguments.npy.empty()) add(npy_files(arguments.npy));
    if (!arguments.png.empty()) add(heatmap_files(arguments.png));
    spare_inputs(std::vector{arguments.recording, arguments.other}, outputs);
}

/// `pictures` gets a line that names the heatmaps, where they are asked for.
Report judge_arguments(const Arguments& arguments, std::string& pictures) {
    const std::unique_ptr<Recording> recording = open_recording(arguments.recording);
    std::unique_ptr<Recording> other;
    if (!arguments.other.empty()) other = open_recording(arguments.other);

    Progress progress("judging");
    JudgeOptions options = arguments.judge;
    options.progress = [&](std::int64_t done, std::int64_t total) { progress.update(done, total); };
    Report report = other ? judge_pair(*recording, *other, options) : judge(*recording, options);
    if (!arguments.no_causes)
        report.diagnosis =
            find_causes(*recording, report, {arguments.judge.compare, arguments.judge.threads});
    if (!arguments.replay.empty()) {
        if (report.diagnosis.causes.empty())
            throw Error("no cause was found to replay", arguments.recording, "leave --replay-out out");
        write_recording(arguments.replay,
                        ReplayedRecording(*recording, report.diagnosis.causes[0], report.confidence));
    }
    if (!arguments.npy.empty()) write_npy(arguments.npy, report, *recording, other.get(), arguments.judge);
    if (!arguments.png.empty())
        pictures = write_heatmaps(arguments.png, report, *recording, other.get(), arguments.judge) + "\n";
    recording->require_unchanged();
    if (other) other->require_unchanged();
    return report;
}

std::string explain_element(const Arguments& arguments) {
    const std::unique_ptr<Recording> recording = open_recording(arguments.recording);
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

/// Also when the reader of a pipe has gone, or the disk is full.
void write_to_stdout(const std::string& text) {
    const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
    if (!written || std::fflush(stdout) != 0) {
        throw Error(std::string("cannot be written: ") + std::strerror(errno), "stdout",
                    "redirect it to a place that can be written");
    }
}

void write_json(const Arguments& arguments, const std::string& json) {
    if (arguments.json == "-") return write_to_stdout(json);
    OutputFile file(arguments.json);
    file.write(json);
    file.commit();
}

int run(const Arguments& arguments) {
    const bool json_to_stdout = arguments.json == "-";
    std::optional<OutputFile> json_file;
    ExitCode code = exit_unjudged;
    std::string text;
    std::string json;
    const auto cannot_judge = [&](const std::string& why) {
        fmt::print(stderr, "tile-diff: {}\n", one_line(why));
        json = unjudged_json(arguments.recording, one_line(why));
    };
    try {
        spare_recordings(arguments);
        if (!arguments.json.empty() && !json_to_stdout) json_file.emplace(arguments.json);
        if (arguments.same_run) {
            const SameRun runs = compare_arguments(arguments);
            text = to_text(runs);
            json = to_json(runs);
            code = runs.changed() == nullptr ? exit_match : exit_diverged;
        } else if (arguments.element.empty()) {
            std::string pictures;
            const Report report = judge_arguments(arguments, pictures);
            text = pictures + to_text(report);
            json = to_json(report);
            code = report.verdict == Verdict::match ? exit_match : exit_diverged;
        } else {
            text = explain_element(arguments);
            code = exit_match;
        }
    } catch (const NoVerdict& unjudged) {
        cannot_judge(unjudged.what());
        text = to_text(unjudged.report());
        json = to_json(unjudged.report());
    } catch (const std::bad_alloc&) {
        cannot_judge(arguments.recording + ": not enough memory; use fewer --threads or a larger machine");
    } catch (const std::exception& error) {
        cannot_judge(error.what());
    }

    try {
        if (json_file) {
            json_file->write(json);
            json_file->commit();
        }
        write_to_stdout(json_to_stdout ? json : readable(text));
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
    if (arguments.json.empty()) return exit_unjudged;
    try {
        spare_recordings(arguments);
        write_json(arguments, unjudged_json(arguments.recording, why));
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
