#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "dump/cli/command_line.h"
#include "dump/cli/program.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/kernel_list.h"

namespace tilescope {
namespace {

struct Command {
    const char* name;
    const char* summary;  ///< its line in tile-run --help
    const char* was;      ///< the option that it was before there were subcommands; null: there was none
    const char* now;      ///< what takes that option's place, with what must be given
    Subcommand (*declare)(CLI::App& app);
    int failed = exit_failed;  ///< the exit code where it could not be done
};

constexpr Command commands[] = {
    {"record", "run a kernel and record its tiles", nullptr, "record", declare_record},
    {"prove-inert", "compare a kernel with and without hooks", "--prove-inert", "prove-inert",
     declare_prove_inert},
    {"poison", "look for what depends on what memory held", "--poison", "poison", declare_poison},
    {"repeat", "look for what differs from run to run", "--repeat", "repeat --runs N", declare_repeat},
    {"bisect", "judge a commit for git bisect run", nullptr, "bisect -- COMMAND", declare_bisect,
     exit_bisect_stops},
    {"watch", "look for what no healthy kernel has, by statistics", "--watch", "watch", declare_watch},
    {"flight", "keep the last launches of many", "--flight-recorder", "flight --keep N", declare_flight},
    {"sweep", "record and judge many problems", "--sweep", "sweep", declare_sweep},
    {"recover", "record what a killed run left in its sink file", "--recover", "recover FILE",
     declare_recover},
    {"list", "list kernels, configurations, inputs and faults", "--list", "list", declare_list},
};

/// Errors: Error for a command line of the time before there were subcommands, with the new one.
void refuse_old_spellings(const CLI::App& app, const std::vector<std::string>& arguments) {
    const auto refuse = [](const std::string& was, const Command& command) {
        throw Error(fmt::format("tile-run {} is now: tile-run {}; see tile-run {} --help", was, command.now,
                                command.name));
    };
    for (const std::string& argument : arguments) {
        const std::string option = argument.substr(0, argument.find('='));
        for (const Command& command : commands) {
            if (command.was != nullptr && option == command.was) refuse(option, command);
        }
    }
    if (arguments.empty() || !arguments.front().starts_with('-')) return;
    const CLI::App* record = app.get_subcommand(commands[0].name);
    for (const std::string& argument : arguments) {
        const CLI::Option* known = record->get_option_no_throw(argument.substr(0, argument.find('=')));
        if (known != nullptr && known != record->get_help_ptr()) refuse("without a subcommand", commands[0]);
    }
}

/// Options that say what stands behind --, in its place: the program of repeat or bisect. Errors: Error for another
/// subcommand.
void take_program(const CLI::App& app, std::vector<std::string>& arguments) {
    const auto dashes = std::ranges::find(arguments, "--");
    if (dashes == arguments.end()) return;
    const auto takes_one = app.get_subcommands([&](const CLI::App* one) {
        return one->get_name() == arguments.front() && one->get_option_no_throw("--program") != nullptr;
    });
    if (takes_one.empty() || dashes + 1 == arguments.end())
        throw Error("-- belongs before the program of repeat or bisect", "command line",
                    "see tile-run repeat --help");
    std::vector<std::string> program;
    for (auto word = dashes + 1; word != arguments.end(); ++word) program.push_back("--program=" + *word);
    arguments.erase(dashes, arguments.end());
    arguments.insert(arguments.end(), program.begin(), program.end());
}

/// What the command line asks for. Errors: those of parse_command_line.
Subcommand parse(std::vector<std::string> arguments) {
    // The options live as long as the work that they are of; the parser need not.
    CLI::App app(
        "Runs bundled attention kernels, healthy or with a planted fault: records their tiles, or checks "
        "them.\n"
        "Exit code: 0 done and nothing found, 1 a check found something, 2 it could not be done.",
        "tile-run");
    app.require_subcommand(1);
    std::vector<Subcommand> works;
    for (const Command& command : commands) {
        CLI::App* subcommand = app.add_subcommand(command.name, command.summary);
        works.push_back(command.declare(*subcommand));
        // The list of all subcommands has a line for each.
        const bool is_chosen = !arguments.empty() && arguments.front() == command.name;
        if (!is_chosen && !asks_for_description(arguments)) subcommand->description(command.summary);
    }
    take_program(app, arguments);
    refuse_old_spellings(app, arguments);
    const std::string help = parse_command_line(app, std::move(arguments), listed_words());
    if (!help.empty()) {
        return {[help] {
            say(stdout, "{}", help);
            return exit_done;
        }};
    }
    for (std::size_t i = 0; i < works.size(); ++i) {
        if (app.got_subcommand(commands[i].name)) return works[i];
    }
    throw Error("no subcommand is given", "command line", "see tile-run --help");
}

int failed_code_of(const std::vector<std::string>& arguments) {
    for (const Command& command : commands)
        if (!arguments.empty() && arguments.front() == command.name) return command.failed;
    return exit_failed;
}

int fail(const std::string& line, int code) {
    say(stderr, "tile-run: {}\n", one_line(line));
    return code;
}

int run(const Subcommand& work, int failed) {
    try {
        return work.run();
    } catch (const std::bad_alloc&) {
        return fail("--shape: not enough memory; choose a smaller shape or --select less", failed);
    } catch (const std::exception& error) {
        return fail(error.what(), failed);
    }
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    using namespace tilescope;
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    const int failed = failed_code_of(arguments);
    Subcommand work;
    try {
        work = parse(arguments);
    } catch (const std::exception& error) {
        return fail(error.what(), failed);
    }
    const auto run_it = [&] { return run(work, failed); };
    if (!work.unfinished) return run_program(run_it);
    return run_supervised(run_it, [&](const std::string& how) { return fail(work.unfinished(how), failed); });
}
