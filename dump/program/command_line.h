#pragma once

// The one place in which the programs read their command lines, so that all of them refuse in the same words.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tilescope {

/// Parses the arguments after the program's name, and gives every program its --version. Returns the text of
/// --help or --version where that was asked for, and otherwise "". Errors: Error that names the option or the subcommands that there are, what is wrong, and
/// the --help that describes them.
std::string parse_command_line(CLI::App& app, std::vector<std::string> arguments);

}  // namespace tilescope
