#pragma once

// What a subcommand of tile-run is. Adding one is a source that declares it, and a row in tile_run.cpp.

#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <string>
#include <utility>

#include "dump/schema/text.h"
#include "kernels/run/request.h"

namespace CLI {
class App;
}  // namespace CLI

namespace tilescope {

enum ExitCode {
    exit_done = 0,
    exit_difference = 1,
    exit_failed = 2,
    // Of bisect: git bisect run takes 2 for a bad commit.
    exit_bisect_skips = 125,
    exit_bisect_stops = 128
};

/// What is done once the command line is parsed.
struct Subcommand {
    std::function<int()> run;  ///< returns the exit code. Errors: Error and what the library throws
    /// Of work on a stranger's file, which is done in a process of its own: what is said when that ends
    /// without a word, given how it ended.
    std::function<std::string(const std::string& how)> unfinished = {};
};

// Each declares the options of its subcommand and says what it does.
Subcommand declare_record(CLI::App& app);
Subcommand declare_prove_inert(CLI::App& app);
Subcommand declare_poison(CLI::App& app);
Subcommand declare_repeat(CLI::App& app);
Subcommand declare_bisect(CLI::App& app);
Subcommand declare_watch(CLI::App& app);
Subcommand declare_flight(CLI::App& app);
Subcommand declare_sweep(CLI::App& app);
Subcommand declare_recover(CLI::App& app);
Subcommand declare_list(CLI::App& app);

/// Names of files come from outside.
template <class... Arguments>
void say(std::FILE* file, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::print(file, "{}", readable(fmt::format(text, std::forward<Arguments>(arguments)...)));
}

/// Why the engine is not the usual one, where it is not.
inline void print_notice(const RunRequest& request) {
    if (!request.notice.empty()) say(stderr, "tile-run: {}\n", request.notice);
}

}  // namespace tilescope
