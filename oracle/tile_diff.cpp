#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <string>

#include "dump/program/command_line.h"
#include "dump/program/program.h"
#include "dump/schema/error.h"
#include "dump/schema/shell_word.h"
#include "oracle/program/arguments.h"
#include "oracle/program/judge_all.h"

int main(int argc, char** argv) {
    // A closed pipe is an error of the write, not a signal.
    std::signal(SIGPIPE, SIG_IGN);
    CLI::App app("", "tile-diff");
    tilescope::Arguments arguments;
    tilescope::declare(app, arguments);
    arguments.command = "tile-diff";
    for (int i = 1; i < argc; ++i) arguments.command += " " + tilescope::shell_word(argv[i]);
    try {
        const std::string help =
            tilescope::parse_command_line(app, {argv + 1, argv + argc}, tilescope::known_words());
        if (!help.empty()) {
            fmt::print("{}", help);
            return 0;
        }
    } catch (const tilescope::Error& error) {
        fmt::print(stderr, "tile-diff: {}\n", error.what());
        return 2;
    }
    const bool asks = arguments.suggest || !arguments.element.empty();
    if (!asks) return tilescope::run_program([&] { return tilescope::judge_all(arguments); });
    return tilescope::run_supervised(
        [&] { return tilescope::ask_one(arguments); },
        [&](const std::string& how) { return tilescope::give_up_asking(arguments, how); });
}
