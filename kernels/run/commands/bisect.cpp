#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "dump/schema/error.h"
#include "kernels/run/bisect_program.h"
#include "kernels/run/commands/command.h"

namespace tilescope {

namespace {

/// What git bisect run understands; the rest of the codes are those of tile-run.
struct StateRow {
    CommitState state;
    int exit_code;
    const char* word;
};
constexpr StateRow state_rows[] = {
    {CommitState::good, exit_done, "good"},
    {CommitState::bad, exit_difference, "bad"},
    {CommitState::skipped, exit_bisect_skips, "skipped"},
};

int bisect(const BisectOptions& options) {
    if (options.command.empty())
        throw Error("no command stands after --", "command line",
                    "give what builds and runs: tile-run bisect -- sh -c 'make && ./my_test'");
    const CommitVerdict verdict = judge_commit(options);
    // Ends this process, and with it git bisect.
    if (verdict.interrupted_by != 0) std::raise(verdict.interrupted_by);
    for (const StateRow& row : state_rows) {
        if (row.state != verdict.state) continue;
        say(stdout, "tile-run bisect: {}: {}\n", row.word, one_line(verdict.why));
        return row.exit_code;
    }
    return exit_bisect_stops;
}

}  // namespace

Subcommand declare_bisect(CLI::App& app) {
    const auto options = std::make_shared<BisectOptions>();
    app.description(
        "Builds and runs a commit for git bisect run, and judges what it records in TILESCOPE_DIR:\n"
        "  git bisect run tile-run bisect -- sh -c 'make && ./my_test'\n"
        "Exit code: 0 it matches, 1 it diverges, 125 it cannot be judged: it does not build, fails or\n"
        "records nothing; 128 it could not be done, which stops git bisect.");
    const char* const group = "What is looked for";
    app.add_option(
           "--stage", options->stage,
           "bad is where this stage is the first wrong one, or diverges from the stages before it by\n"
           "itself: not where a mistake in one of those explains what it holds")
        ->type_name("NAME")
        ->group(group);
    app.add_option("--cause", options->cause, "bad is where tile-diff names this cause")
        ->type_name("NAME")
        ->group(group);
    app.add_option(
           "--baseline", options->baseline,
           "known divergences, as of tile-diff, which are good; FILE is outside of what git checks out")
        ->type_name("FILE")
        ->group(group);
    // tile_run.cpp puts what stands behind -- here, a word each.
    app.add_option("--program", options->command)->group("");
    return {[options] { return bisect(*options); }};
}

}  // namespace tilescope
