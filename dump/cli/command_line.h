#pragma once

// The one place in which the programs read their command lines, so that all of them refuse in the same words.

#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tilescope {

/// Words that completions offer as the value of an option where --help names who lists them.
struct OfferedWords {
    std::string option;  ///< "--kernel", of whatever subcommand
    std::vector<std::string> words;
};

/// Whether a program is asked for what is installed for man or a shell: --describe man, bash, zsh or fish. --help does not
/// show it.
bool asks_for_description(std::span<const std::string> arguments);

/// Parses the arguments after the program's name, and gives every program its --version. Returns the text of
/// --help, --version or --describe where that was asked for, and otherwise "". Errors: Error that names the option or the
/// subcommands that there are, what is wrong, and the --help that describes them.
std::string parse_command_line(CLI::App& app, std::vector<std::string> arguments,
                               std::span<const OfferedWords> offered = {});

}  // namespace tilescope
