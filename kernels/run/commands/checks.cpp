// The checks that run a kernel more than once and compare bits: prove-inert, poison and repeat.

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "dump/schema/error.h"
#include "dump/writer.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/repeat_program.h"
#include "kernels/run/reports.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

namespace {

struct CheckOptions {
    RunOptions run;
    bool json = false;
    int runs = 0;                      ///< of repeat
    std::vector<std::string> program;  ///< of repeat: in place of a bundled kernel
};

template <class Report>
void print(const RunRequest& request, const Report& report, bool as_json) {
    print_notice(request);
    say(stdout, "{}", as_json ? to_json(request, report) : to_text(request, report));
}

int prove(const CheckOptions& options) {
    const RunRequest request = make_request(options.run);
    const InertProof proof = prove_inert(request);
    print(request, proof, options.json);
    return proof.different == 0 ? exit_done : exit_difference;
}

int poison(const CheckOptions& options) {
    const RunRequest request = make_request(options.run);
    const PoisonResult result = run_poisoned(request);
    const std::string& path = options.run.output;
    if (!path.empty()) {
        write_recording(path, result.nan_run);
        if (!options.json) say(stdout, "the run after NaN: tile-diff {}\n", path);
    }
    print(request, result.report, options.json);
    return verdict_of(result.report) == PoisonVerdict::independent ? exit_done : exit_difference;
}

int repeat_of_program(const CheckOptions& options) {
    const ProgramRepeat repeat = repeat_program(options.program, options.runs);
    say(stdout, "{}", options.json ? to_json(repeat) : to_text(repeat));
    return repeat.is_repeatable() ? exit_done : exit_difference;
}

int repeat(const CheckOptions& options) {
    if (!options.program.empty()) return repeat_of_program(options);
    RunOptions run = options.run;
    run.own_options = {"--runs", fmt::format("{}", options.runs)};
    const RunRequest request = make_request(run);
    const RepeatReport report = repeat_runs(request, options.runs);
    print(request, report, options.json);
    return report.changed_runs == 0 ? exit_done : exit_difference;
}

std::shared_ptr<CheckOptions> options_of(const char* subcommand) {
    auto options = std::make_shared<CheckOptions>();
    options->run.subcommand = subcommand;
    return options;
}

}  // namespace

Subcommand declare_prove_inert(CLI::App& app) {
    const auto options = options_of("prove-inert");
    app.description(
        "Runs a kernel with and without hooks on the GPU and compares the outputs bit by bit; prints\n"
        "registers, memory and the time of both builds.\n"
        "Exit code: 0 the hooks change nothing, 1 they do, 2 it could not be done.");
    declare_kernel(app, options->run);
    declare_call(app, options->run);
    declare_selection(app, options->run);
    declare_sink(app, options->run, memories_of_the_process);
    declare_json(app, options->json);
    return {[options] { return prove(*options); }};
}

Subcommand declare_poison(CLI::App& app) {
    const auto options = options_of("poison");
    app.description(
        "Runs a kernel with other contents of shared memory and outputs, and compares tiles and outputs bit\n"
        "by bit.\n"
        "Exit code: 0 nothing depends on what memory held, 1 something does or differs from run to run,\n"
        "2 it could not be done.");
    declare_checked_run(app, options->run);
    declare_output(app, options->run, "record the run after NaN; nothing is recorded by default");
    declare_json(app, options->json);
    return {[options] { return poison(*options); }};
}

Subcommand declare_repeat(CLI::App& app) {
    const auto options = options_of("repeat");
    app.description(
        "Runs a kernel several times with the same inputs, and compares tiles and outputs bit by bit.\n"
        "After --, any program whose captures honour TILESCOPE_DIR: repeat --runs 12 -- ./my_program\n"
        "Exit code: 0 all runs have the same bits, 1 some differ, 2 it could not be done.");
    app.add_option("--runs", options->runs, "how often to run it")
        ->type_name("N")
        ->check(CLI::Range(2, 1000000))
        ->required()
        ->group("Repetition");
    declare_checked_run(app, options->run);
    declare_json(app, options->json);
    const std::vector<CLI::Option*> of_kernel = app.get_options([](const CLI::Option* option) {
        return !option->check_lname("runs") && !option->check_lname("json") && !option->check_lname("help");
    });
    std::vector<const CLI::Option*> required;
    for (CLI::Option* option : of_kernel) {
        if (option->get_required()) required.push_back(option->required(false));
    }
    // tile_run.cpp puts what stands behind -- here, a word each.
    app.add_option("--program", options->program)->group("");
    app.parse_complete_callback([options, of_kernel, required] {
        for (const CLI::Option* option : required)
            if (options->program.empty() && option->empty())
                throw Error("it is required and not given", option->get_name(),
                            "give " + option->get_type_name() + ", or a program after --");
        for (const CLI::Option* option : of_kernel)
            if (!options->program.empty() && !option->empty())
                throw Error("it says nothing to a program", option->get_name(), "leave it out");
    });
    return {[options] { return repeat(*options); }};
}

}  // namespace tilescope
