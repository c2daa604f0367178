#include <algorithm>
#include <cctype>
#include <sstream>

#include "dump/cli/program_text.h"

namespace tilescope {

namespace {

/// A hyphen that can be searched for and copied, and no line that troff takes for a request.
std::string troff(const std::string& text) {
    std::string escaped = text.starts_with('.') ? "\\&" : "";
    for (const char letter : text) {
        switch (letter) {
            case '\\':
                escaped += "\\e";
                break;
            case '-':
                escaped += "\\-";
                break;
            case '\'':
                escaped += "\\(aq";
                break;
            default:
                escaped += letter;
        }
    }
    return escaped;
}

std::string bold(const std::string& text) {
    return "\\fB" + troff(text) + "\\fR";
}

std::string italic(const std::string& text) {
    return "\\fI" + troff(text) + "\\fR";
}

/// Lines are filled; those that begin with two blanks stay as they are.
std::string paragraphs(const std::string& text) {
    std::istringstream lines(text);
    std::string out;
    bool in_example = false;
    for (std::string line; std::getline(lines, line);) {
        const bool is_example = line.starts_with("  ");
        if (is_example != in_example) out += is_example ? ".EX\n" : ".EE\n";
        in_example = is_example;
        out += troff(line) + "\n";
    }
    return out + (in_example ? ".EE\n" : "");
}

std::string upper(std::string text) {
    for (char& letter : text) letter = char(std::toupper(static_cast<unsigned char>(letter)));
    return text;
}

std::string option_entry(const OptionText& option) {
    std::string names;
    for (const std::string& name : option.names)
        names += (names.empty() ? "" : ", ") + (name.starts_with('-') ? bold(name) : italic(name));
    if (!option.value.empty() && option.names[0].starts_with('-')) names += " " + italic(option.value);
    std::string text = ".TP\n" + names + "\n" + paragraphs(option.description);
    std::string choices;
    for (const std::string& choice : option.choices) choices += (choices.empty() ? "" : ", ") + bold(choice);
    if (!choices.empty()) text += ".br\nOne of " + choices + ".\n";
    if (!option.default_value.empty()) text += ".br\nDefault: " + bold(option.default_value) + ".\n";
    if (option.is_required) text += ".br\nRequired.\n";
    return text;
}

/// In groups, each under its name.
std::string options_of(const CommandText& command) {
    std::vector<OptionText> all = command.arguments;
    all.insert(all.end(), command.options.begin(), command.options.end());
    // CLI11 has this group for what is in none.
    const std::string none = "Options";
    std::stable_partition(all.begin(), all.end(),
                          [&](const OptionText& option) { return option.group == none; });
    std::string text;
    std::string group = none;
    for (const OptionText& option : all) {
        if (option.group != group) text += ".SS \"" + troff(option.group) + "\"\n";
        group = option.group;
        text += option_entry(option);
    }
    return text;
}

std::string synopsis(const CommandText& command) {
    std::string text = "[" + italic("OPTION") + "]...";
    for (const OptionText& argument : command.arguments)
        text += " " + italic(argument.value.empty() ? argument.names[0] : argument.value) +
                (argument.may_repeat ? "..." : "");
    return text;
}

std::string command_section(const CommandText& program, const CommandText& command) {
    std::string text = ".SH \"" + troff(upper(program.name + " " + command.name)) + "\"\n" +
                       bold(program.name + " " + command.name) + " " + synopsis(command) + "\n.PP\n" +
                       paragraphs(command.description);
    if (!command.exit_codes.empty()) text += ".PP\nExit code: " + paragraphs(command.exit_codes);
    return text + options_of(command);
}

}  // namespace

std::string man_page(const CommandText& program) {
    std::string text = ".TH " + troff(upper(program.name)) + " 1 \"\" \"" + troff(program.version) +
                       "\" \"Tilescope\"\n" + ".SH NAME\n" + troff(program.name) + " \\- " +
                       troff(summary_of(program.description)) + "\n" + ".SH SYNOPSIS\n" + bold(program.name) +
                       " ";
    text +=
        program.commands.empty() ? synopsis(program) : italic("COMMAND") + " [" + italic("OPTION") + "]...";
    text += "\n.SH DESCRIPTION\n" + paragraphs(program.description);
    if (!program.options.empty()) text += ".SH OPTIONS\n" + options_of(program);
    for (const CommandText& command : program.commands) text += command_section(program, command);
    if (!program.exit_codes.empty()) text += ".SH \"EXIT STATUS\"\n" + paragraphs(program.exit_codes);
    return text;
}

}  // namespace tilescope
