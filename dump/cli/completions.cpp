#include <fmt/format.h>

#include <map>
#include <string_view>

#include "dump/cli/program_text.h"
#include "dump/schema/text.h"

namespace tilescope {

namespace {

std::string replaced(const std::string& text, std::string_view letters, const std::string& before) {
    std::string out;
    for (const char letter : text) {
        if (letters.find(letter) != std::string_view::npos) out += before;
        out += letter;
    }
    return out;
}

/// Inside of single quotes of a shell.
std::string quoted(const std::string& text) {
    std::string out = "'";
    for (const char letter : text) out += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return out + "'";
}

std::vector<std::string> names_of(const std::vector<CommandText>& commands) {
    std::vector<std::string> names;
    names.reserve(commands.size());
    for (const CommandText& command : commands) names.push_back(command.name);
    return names;
}

/// The name without its hyphens, for shells that want it so.
std::string bare(const std::string& name) {
    return name.substr(name.find_first_not_of('-'));
}

bool is_long(const std::string& name) {
    return name.starts_with("--");
}

// ---- bash

/// Case branches: what may follow the options of a command, and its words.
std::string bash_branches(const CommandText& command, const std::string& chosen,
                          const std::vector<std::string>& commands) {
    std::map<std::string, std::vector<std::string>> options_before;
    std::vector<std::string> words = commands;
    for (const OptionText& option : command.options) {
        words.insert(words.end(), option.names.begin(), option.names.end());
        if (option.value.empty()) continue;
        for (const std::string& name : option.names)
            options_before[joined(option.offered, " ")].push_back(fmt::format("{},{}", chosen, name));
    }
    const auto branch = [](const std::string& pattern, const std::string& values) {
        return "    " + pattern + ") words=" + quoted(values) + " ;;\n";
    };
    std::string text;
    for (const auto& [values, options] : options_before) text += branch(joined(options, " | "), values);
    return text + branch(chosen + ",*", joined(words, " "));
}

// ---- zsh

/// One argument of _arguments.
std::string zsh_option(const OptionText& option) {
    const std::string said = replaced(summary_of(option.description), "[]:\\", "\\");
    std::string value;
    if (!option.value.empty()) {
        value = ":" + replaced(option.value, ":\\", "\\") + ":";
        if (option.is_file) value += "_files";
        if (!option.offered.empty()) value += "(" + joined(option.offered, " ") + ")";
    }
    if (!option.names[0].starts_with('-'))
        return quoted((option.may_repeat ? "*:" : ":") + option.names[0] + ":_files");
    std::string text;
    for (const std::string& name : option.names) {
        const std::string others = "(" + joined(option.names, " ") + ")";
        const std::string equals = option.value.empty() ? "" : is_long(name) ? "=" : "+";
        const std::string head = option.may_repeat ? "*" : others;
        text +=
            (text.empty() ? "" : " ") + quoted(fmt::format("{}{}{}[{}]{}", head, name, equals, said, value));
    }
    return text;
}

std::string zsh_arguments(const CommandText& command, const std::string& indent) {
    std::string text = "_arguments -s";
    for (const std::vector<OptionText>& all : {command.options, command.arguments})
        for (const OptionText& option : all) text += " \\\n" + indent + "    " + zsh_option(option);
    return text + "\n";
}

std::string zsh_commands(const CommandText& program) {
    std::string text = R"(    local context state line
    local -a commands
    _arguments -C '1: :->command' '*:: :->arguments'
    case $state in
    command)
        commands=(
)";
    for (const CommandText& command : program.commands) {
        const std::string said = replaced(summary_of(command.description), ":\\", "\\");
        text += fmt::format("            {}\n", quoted(command.name + ":" + said));
    }
    text += R"(        )
        _describe command commands ;;
    arguments)
        case $line[1] in
)";
    for (const CommandText& command : program.commands)
        text +=
            fmt::format("        {}) {}            ;;\n", command.name, zsh_arguments(command, "        "));
    return text + "        esac ;;\n    esac\n";
}

// ---- fish

std::string fish_option(const OptionText& option, const std::string& head) {
    std::string text = head;
    if (option.names[0].starts_with('-'))
        for (const std::string& name : option.names) text += (is_long(name) ? " -l " : " -s ") + bare(name);
    if (!option.value.empty() && option.names[0].starts_with('-')) text += option.is_file ? " -r -F" : " -x";
    if (!option.offered.empty()) text += " -a " + quoted(joined(option.offered, " "));
    return text + " -d " + quoted(summary_of(option.description)) + "\n";
}

}  // namespace

std::string bash_completion(const CommandText& program) {
    std::string text = fmt::format("# Completes command lines of {0} in bash.\n_{0}()", program.name) + R"( {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command='' words='' word
    if [[ $current == = ]]; then current=''; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -- ]] && return
)";
    if (!program.commands.empty())
        text += fmt::format("        case $word in {}) [[ -n $command ]] || command=$word ;; esac\n",
                            joined(names_of(program.commands), "|"));
    text += "    done\n    case $command,$before in\n";
    for (const CommandText& command : program.commands) text += bash_branches(command, command.name, {});
    text += bash_branches(program, "", names_of(program.commands));
    return text + R"(    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
# Where nothing fits, files do.
)" + fmt::format("complete -o bashdefault -o default -F _{0} {0}\n", program.name);
}

std::string zsh_completion(const CommandText& program) {
    const std::string name = "_" + program.name;
    return "#compdef " + program.name + "\n" + name + "() {\n" +
           (program.commands.empty() ? "    " + zsh_arguments(program, "    ") : zsh_commands(program)) +
           "}\n" + name + " \"$@\"\n";
}

std::string fish_completion(const CommandText& program) {
    const std::string head = "complete -c " + program.name;
    std::string text = "# Completes command lines of " + program.name + " in fish.\n";
    for (const OptionText& option : program.options)
        text += fish_option(option, head + (program.commands.empty() ? "" : " -n __fish_use_subcommand"));
    for (const CommandText& command : program.commands) {
        text += head + " -f -n __fish_use_subcommand -a " + command.name + " -d " +
                quoted(summary_of(command.description)) + "\n";
        for (const OptionText& option : command.options)
            text += fish_option(option, head + " -n '__fish_seen_subcommand_from " + command.name + "'");
    }
    return text;
}

}  // namespace tilescope
