#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "dump/error.h"
#include "dump/file_reader.h"
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
    JudgeOptions judge;
};

void declare(CLI::App& app, Arguments& arguments) {
    app.description(
        "Judges a recording of an attention kernel: which stage went wrong first, and where.\n"
        "Exit code: 0 it matches, 1 it diverges, 2 it could not be judged.");
    app.add_option("recording", arguments.recording, "the recording, run.h5")->required();
    app.add_option("other", arguments.other, "compare with this recording instead of the float64 oracle");
    app.add_option("--json", arguments.json,
                   "write the report as JSON to FILE, or - for stdout in place of the text")
        ->type_name("FILE");
    app.add_option("--npy", arguments.npy,
                   "write got, expected and difference of the first wrong stage to DIR")
        ->type_name("DIR");
    app.add_option("--atol", arguments.judge.compare.atol, "absolute tolerance, in place of the derived one")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--rtol", arguments.judge.compare.rtol,
                   "tolerance relative to the expected value, likewise")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--top", arguments.judge.compare.top, "worst elements to show")
        ->check(CLI::Range(0, 1000))
        ->capture_default_str();
    app.add_option("--threads", arguments.judge.threads, "threads, 0 for one a core")
        ->check(CLI::Range(0, 1024))
        ->capture_default_str();
}

Report judge_arguments(const Arguments& arguments) {
    const std::unique_ptr<Recording> recording = open_recording(arguments.recording);
    std::unique_ptr<Recording> other;
    if (!arguments.other.empty()) other = open_recording(arguments.other);

    Progress progress("judging");
    JudgeOptions options = arguments.judge;
    options.progress = [&](std::int64_t done, std::int64_t total) { progress.update(done, total); };
    Report report = other ? judge_pair(*recording, *other, options) : judge(*recording, options);
    if (!arguments.npy.empty()) write_npy(arguments.npy, report, *recording, other.get(), arguments.judge);
    return report;
}

int run(const Arguments& arguments) {
    const bool json_to_stdout = arguments.json == "-";
    std::optional<OutputFile> json_file;
    const auto write_json = [&](const std::string& text) {
        if (json_to_stdout) fmt::print("{}", text);
        if (!json_file) return;
        json_file->write(text);
        json_file->commit();
    };
    try {
        if (!arguments.json.empty() && !json_to_stdout) json_file.emplace(arguments.json);
        const Report report = judge_arguments(arguments);
        write_json(to_json(report));
        if (!json_to_stdout) fmt::print("{}", to_text(report));
        return report.verdict == Verdict::match ? exit_match : exit_diverged;
    } catch (const std::exception& error) {
        fmt::print(stderr, "tile-diff: {}\n", error.what());
        try {
            write_json(unjudged_json(arguments.recording, error.what()));
        } catch (const std::exception& second) {
            fmt::print(stderr, "tile-diff: {}\n", second.what());
        }
        return exit_unjudged;
    }
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    CLI::App app;
    tilescope::Arguments arguments;
    tilescope::declare(app, arguments);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        fmt::print(stderr, "tile-diff: command line: {}; see tile-diff --help\n", error.what());
        return tilescope::exit_unjudged;
    }
    return tilescope::run(arguments);
}
