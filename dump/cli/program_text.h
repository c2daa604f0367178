#pragma once

// What a program says of itself, read once from its options: for man and for the completions of shells.

#include <span>
#include <string>
#include <vector>

#include "dump/cli/command_line.h"

namespace CLI {
class App;
}

namespace tilescope {

/// An option, or an argument without a name.
struct OptionText {
    std::vector<std::string> names;    ///< "-j", "--jobs"; of an argument "PATH" alone
    std::string value;                 ///< "N"; empty: it takes none
    std::vector<std::string> choices;  ///< all that it takes
    std::vector<std::string> offered;  ///< what completions offer: the choices, or OfferedWords
    std::string description;           ///< lines; those that begin with two blanks are examples
    std::string default_value;
    std::string group;
    bool is_file = false;  ///< its value names a file or a folder
    bool is_required = false;
    bool may_repeat = false;
};

/// A program or one of its subcommands.
struct CommandText {
    std::string name;
    std::string version;      ///< of the program alone
    std::string description;  ///< lines, as those of an option
    std::string exit_codes;   ///< what stands behind "Exit code:"
    std::vector<OptionText> options;
    std::vector<OptionText> arguments;
    std::vector<CommandText> commands;
};

/// Without what --help does not show.
CommandText program_text(const CLI::App& app, std::span<const OfferedWords> offered);

/// The first sentence, or what stands before its first semicolon, without what ends it.
std::string summary_of(const std::string& description);

/// A page of section 1 for man.
std::string man_page(const CommandText& program);

// Scripts that complete command lines.
std::string bash_completion(const CommandText& program);
std::string zsh_completion(const CommandText& program);
std::string fish_completion(const CommandText& program);

}  // namespace tilescope
