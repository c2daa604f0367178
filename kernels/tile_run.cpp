#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "dump/error.h"
#include "dump/file_identity.h"
#include "dump/file_reader.h"
#include "dump/file_writer.h"
#include "dump/program.h"
#include "dump/text.h"
#include "kernels/flight_runs.h"
#include "kernels/kernel_list.h"
#include "kernels/run_kernel.h"
#include "kernels/run_options.h"
#include "kernels/run_reports.h"
#include "kernels/sweep.h"
#include "kernels/watch_runs.h"

namespace tilescope {
namespace {

enum ExitCode { exit_done = 0, exit_difference = 1, exit_failed = 2 };

/// Names of files come from outside.
template <class... Arguments>
void say(std::FILE* file, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::print(file, "{}", readable(fmt::format(text, std::forward<Arguments>(arguments)...)));
}

void print_notice(const RunRequest& request) {
    if (!request.notice.empty()) say(stderr, "tile-run: {}\n", request.notice);
}

template <class Report>
void print(const RunRequest& request, const Report& report, bool as_json) {
    print_notice(request);
    say(stdout, "{}", as_json ? to_json(request, report) : to_text(request, report));
}

int prove(const RunRequest& request, const RunOptions& options) {
    const InertProof proof = prove_inert(request);
    print(request, proof, options.json);
    return proof.different == 0 ? exit_done : exit_difference;
}

int repeat(const RunRequest& request, const RunOptions& options) {
    const RepeatReport report = repeat_runs(request, options.repeat);
    print(request, report, options.json);
    return report.changed_runs == 0 ? exit_done : exit_difference;
}

int poison(const RunRequest& request, const RunOptions& options) {
    const PoisonResult result = run_poisoned(request);
    if (!options.output.empty()) {
        write_recording(options.output, result.nan_run);
        if (!options.json) say(stdout, "the run after NaN: tile-diff {}\n", options.output);
    }
    print(request, result.report, options.json);
    return verdict_of(result.report) == PoisonVerdict::independent ? exit_done : exit_difference;
}

int watch(const RunRequest& request, const RunOptions& options) {
    const WatchResult result = run_watched(request, options.budget.value_or(default_watch_budget));
    const std::string path = result.dump ? options.output : "";
    if (!path.empty()) write_recording(path, *result.dump);
    print_notice(request);
    say(stdout, "{}", options.json ? to_json(request, result, path) : to_text(request, result, path));
    return result.report.findings.empty() ? exit_done : exit_difference;
}

int fly(const RunRequest& request, const RunOptions& options) {
    const FlightResult result = record_flight(request, make_flight_request(options));
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < result.kept.size() && !options.output.empty(); ++i) {
        const bool last = i + 1 == result.kept.size();
        if (!options.all_launches && !last) continue;
        paths.push_back(options.all_launches ? fmt::format("{}.{}", options.output, i) : options.output);
        write_recording(paths.back(), result.kept[i]);
    }
    print_notice(request);
    say(stdout, "{}", options.json ? to_json(request, result, paths) : to_text(request, result, paths));
    return result.freeze ? exit_difference : exit_done;
}

/// Stages whose tiles had no room, or "".
std::string stages_without_room(const CapturedRun& run) {
    std::vector<std::string_view> names;
    for (const StageInfo& stage : stages_of(run.problem())) {
        if (run.capture().stages[std::size_t(stage.stage)].elements_dropped > 0) names.push_back(stage.name);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

int record(const RunRequest& request, const std::string& path) {
    // The sink's file is removed when the recording is written.
    if (!request.sink_file.empty() && same_file(request.sink_file, path)) {
        throw Error("is the recording to write, too", "--sink-file", "name another file");
    }
    const auto start = std::chrono::steady_clock::now();
    if (!request.sink_file.empty())
        say(stderr,
            "tile-run: tiles are in {} until they are recorded; tile-diff reads it if this run is killed\n",
            request.sink_file);
    const CapturedRun run = run_kernel(request);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    write_recording(path, run);
    if (!request.sink_file.empty()) std::filesystem::remove(request.sink_file);
    print_notice(request);
    const std::string dropped = stages_without_room(run);
    if (!dropped.empty()) {
        say(stderr, "tile-run: {}: no room for all tiles of {}; raise --sink-bytes or --select fewer\n", path,
            dropped);
    }
    say(stdout, "{} on {} in {:.2f} s: {}, {} bytes\n", describe(request), run.provenance().device,
        seconds.count(), path, std::filesystem::file_size(path));
    if (run.capture().ended != "completed") {
        throw Error("the kernel failed (" + run.capture().ended + "), what was captured is saved", path,
                    request.mapped_sink || !request.sink_file.empty() || request.engine == Engine::cpu
                        ? "judge it with tile-diff"
                        : "run it again with --sink-memory mapped to keep its tiles");
    }
    if (request.kernel->quantises) {
        const Problem& problem = request.problem;
        const RunInputs inputs = make_inputs(problem, *request.input, request.seed);
        say(stdout, "{}", to_text(quantisation_errors(problem, inputs)));
    }
    say(stdout, "next: tile-diff {}\n", path);
    return exit_done;
}

int recover(const std::string& sink_file, const std::string& path) {
    if (path.empty()) throw Error("no output file is named", "-o", "name the recording to write");
    spare_inputs(std::span(&sink_file, 1), std::span(&path, 1));
    write_recording(path, *open_recording(sink_file));
    say(stdout, "what {} holds: {}, {} bytes\nnext: tile-diff {}\n", sink_file, path,
        std::filesystem::file_size(path), path);
    return exit_done;
}

int sweep(const RunOptions& options) {
    const SweepReport report = run_sweep(options, [&](const SweepReport& so_far) {
        if (!options.json) {
            say(stdout, "{}/{} {}", so_far.cases.size(), so_far.planned, line_of(so_far.cases.back()));
            std::fflush(stdout);
        }
        // With each case, so that an interrupted sweep leaves what it found.
        if (!options.csv.empty() && !(std::ofstream(options.csv) << to_csv(so_far))) {
            throw Error("it cannot be written", options.csv, "name a file in a folder with room");
        }
    });
    say(stdout, "{}", options.json ? to_json(report) : to_text(report));
    const std::size_t diverged = report.cases.size() - report.passed() - report.unjudged();
    if (diverged > 0) return exit_difference;
    return report.unjudged() > 0 || report.cases.empty() ? exit_failed : exit_done;
}

/// What a run is for beside a recording: one thing at most.
void require_one_purpose(const RunOptions& options) {
    const int purposes = options.prove_inert + options.poison + (options.repeat > 0) + options.watch +
                         (options.flight_recorder > 0);
    if (purposes > 1) {
        throw Error("each is a check of its own", "--prove-inert, --poison, --repeat, --watch",
                    "choose one of them");
    }
    if (options.json && purposes == 0) {
        throw Error(
            "it belongs to --list, --prove-inert, --poison, --repeat, --watch, --flight-recorder and --sweep",
            "--json", "add one of them or leave it out");
    }
    const bool of_flight =
        options.launches || options.plant_nan || !options.limits.empty() || options.all_launches;
    if (of_flight && options.flight_recorder == 0) {
        throw Error("they belong to --flight-recorder", "--launches, --plant-nan, --limit, --all-launches",
                    "add that or leave them out");
    }
    if (options.all_launches && options.output.empty()) {
        throw Error("no output file is named", "--all-launches", "add -o");
    }
    if (options.budget && !options.watch) {
        throw Error("it belongs to --watch", "--budget", "add that or leave it out");
    }
    if ((options.prove_inert || options.repeat > 0) && !options.output.empty()) {
        throw Error(
            fmt::format("nothing is recorded with {}", options.prove_inert ? "--prove-inert" : "--repeat"),
            "-o", "leave it out");
    }
    if (purposes == 0 && options.output.empty()) {
        throw Error("no output file is named", "-o", "name the recording to write, for example -o run.h5");
    }
}

int choose_work(const RunOptions& options) {
    if (!options.help.empty()) {
        say(stdout, "{}", options.help);
        return exit_done;
    }
    if (options.list) {
        say(stdout, "{}", options.json ? list_as_json() : list_as_text());
        return exit_done;
    }
    if (!options.recover.empty()) return recover(options.recover, options.output);
    if (options.sweep) return sweep(options);
    require_one_purpose(options);
    const RunRequest request = make_request(options);
    if (options.prove_inert) return prove(request, options);
    if (options.poison) return poison(request, options);
    if (options.repeat > 0) return repeat(request, options);
    if (options.watch) return watch(request, options);
    if (options.flight_recorder > 0) return fly(request, options);
    return record(request, options.output);
}

int run(const RunOptions& options) {
    try {
        return choose_work(options);
    } catch (const std::bad_alloc&) {
        say(stderr, "tile-run: --shape: not enough memory; choose a smaller shape or --select less\n");
    } catch (const std::exception& error) {
        say(stderr, "tile-run: {}\n", one_line(error.what()));
    }
    return exit_failed;
}

int give_up(const RunOptions& options, const std::string& how) {
    say(stderr, "tile-run: {}: reading it does not end ({}); copy it again, or record it again\n",
        options.recover, how);
    return exit_failed;
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    using namespace tilescope;
    RunOptions options;
    try {
        options = parse_options({argv + 1, argv + argc});
    } catch (const std::exception& error) {
        say(stderr, "tile-run: {}\n", one_line(error.what()));
        return exit_failed;
    }
    const auto work = [&] { return run(options); };
    if (options.recover.empty()) return run_program(work);
    return run_supervised(work, [&](const std::string& how) { return give_up(options, how); });
}
