#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>

#include "dump/writer.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/watch_runs.h"

namespace tilescope {

namespace {

struct WatchOptions {
    RunOptions run;
    bool json = false;
    std::uint64_t budget = std::uint64_t(512) << 20;  ///< bytes of the dump
};

int watch(const WatchOptions& options) {
    RunOptions run = options.run;
    run.own_options = {"--budget", fmt::format("{}", options.budget)};
    const RunRequest request = make_request(run);
    const WatchResult result = run_watched(request, options.budget);
    const std::string path = result.dump ? run.output : "";
    if (!path.empty()) write_recording(path, *result.dump);
    print_notice(request);
    say(stdout, "{}", options.json ? to_json(request, result, path) : to_text(request, result, path));
    return result.report.findings.empty() ? exit_done : exit_difference;
}

}  // namespace

Subcommand declare_watch(CLI::App& app) {
    const auto options = std::make_shared<WatchOptions>();
    options->run.subcommand = "watch";
    app.description(
        "Keeps statistics of each tile and looks for what no healthy kernel has.\n"
        "Exit code: 0 nothing looks wrong, 1 something does, 2 it could not be done.");
    declare_checked_run(app, options->run);
    declare_output(app, options->run,
                   "record the query blocks that look wrong; nothing is recorded by default");
    declare_size(app, "--budget", options->budget, "room for what is recorded", "512M")->group(output_group);
    declare_json(app, options->json);
    return {[options] { return watch(*options); }};
}

}  // namespace tilescope
