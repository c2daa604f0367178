#include "kernels/run/sweep.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>

#include "dump/schema/error.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/number_range.h"

namespace tilescope {

namespace {

struct SweepCommandOptions {
    SweepOptions sweep;
    bool json = false;
    std::string csv;  ///< empty: none is written
};

int sweep(const SweepCommandOptions& options) {
    const SweepReport report = run_sweep(options.sweep, [&](const SweepReport& so_far) {
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

}  // namespace

Subcommand declare_sweep(CLI::App& app) {
    const auto options = std::make_shared<SweepCommandOptions>();
    RunOptions& run = options->sweep.run;
    constexpr const char* group = "Sweep";
    app.description(
        "Runs many shapes, masks, types, inputs and seeds, and judges each with the tile-diff beside this\n"
        "program: of all kernels that run here, or of what is named.\n"
        "Exit code: 0 all match, 1 some diverge, 2 some could not be judged, or it could not be done.");
    app.add_option("--jobs", options->sweep.jobs, "recordings judged at a time; by default one for two cores")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->group(group);
    app.add_option("--time-budget", options->sweep.time_budget,
                   "begin no case after so many seconds; none by default")
        ->type_name("SECONDS")
        ->check(number_range(0.001, 1e6))
        ->group(group);
    declare_kernel_name(app, run);
    declare_config(app, run);
    declare_fault(app, run);
    declare_engine(app, run);
    declare_shape(app, run);
    declare_heads_kv(app, run);
    declare_seed(app, run);
    declare_sink_bytes(app, run);
    declare_sink_mode(app, run);
    declare_time_limit(app, run);
    app.add_option("--csv", options->csv, "write a row for each case; by default none is written")
        ->type_name("FILE")
        ->group(output_group);
    declare_json(app, options->json);
    return {[options] { return sweep(*options); }};
}

}  // namespace tilescope
