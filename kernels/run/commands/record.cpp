#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "dump/file/identity.h"
#include "dump/schema/error.h"
#include "dump/writer.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/reports.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

namespace {

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
                    request.sink_memory != SinkMemory::device || request.engine == Engine::cpu
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

}  // namespace

Subcommand declare_record(CLI::App& app) {
    const auto options = std::make_shared<RunOptions>();
    app.description(
        "Runs a bundled attention kernel, healthy or with a planted fault, and records its tiles.\n"
        "Exit code: 0 recorded, 2 it could not be done.");
    declare_recorded_run(app, *options);
    declare_output(app, *options, "the recording to write")->required();
    return {[options] { return record(make_request(*options), options->output); }};
}

}  // namespace tilescope
