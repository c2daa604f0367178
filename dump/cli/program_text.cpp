#include "dump/cli/program_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

namespace tilescope {

namespace {

constexpr std::string_view names_of_files[] = {"FILE", "DIR", "PATH", "OTHER"};

/// "TEXT:{cuda,cpu}" of CLI11.
void read_value(const std::string& type, OptionText& text) {
    const std::size_t colon = type.find(':');
    text.value = type.substr(0, colon);
    text.is_file = std::ranges::find(names_of_files, text.value) != std::end(names_of_files);
    if (colon == std::string::npos || type.substr(colon, 2) != ":{") return;
    const std::size_t end = type.find('}', colon);
    for (std::size_t at = colon + 2; at < end;) {
        const std::size_t comma = std::min(type.find(',', at), end);
        text.choices.push_back(type.substr(at, comma - at));
        at = comma + 1;
    }
}

OptionText option_text(const CLI::Option& option, std::span<const OfferedWords> offered) {
    OptionText text;
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
    if (option.get_items_expected_max() > 0) read_value(option.get_type_name(), text);
    if (option.get_positional()) {
        text.names = {option.get_name(true)};
        text.is_file = true;
    }
    text.offered = text.choices;
    for (const OfferedWords& words : offered)
        if (std::ranges::find(text.names, words.option) != text.names.end()) text.offered = words.words;
    text.description = option.get_description();
    text.default_value = option.get_default_str();
    text.group = option.get_group();
    text.is_required = option.get_required();
    text.may_repeat = option.get_items_expected_max() > 1000;
    return text;
}

/// Where no sentence says what the program ends with, all is its description.
void read_description(const std::string& said, CommandText& text) {
    constexpr std::string_view head = "Exit code: ";
    const std::size_t at = said.rfind("\n" + std::string(head));
    text.description = said.substr(0, at);
    if (at != std::string::npos) text.exit_codes = said.substr(at + 1 + head.size());
}

}  // namespace

CommandText program_text(const CLI::App& app, std::span<const OfferedWords> offered) {
    CommandText text;
    text.name = app.get_name();
    text.version = app.get_parent() == nullptr ? app.version() : "";
    read_description(app.get_description(), text);
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty()) continue;
        (option->get_positional() ? text.arguments : text.options).push_back(option_text(*option, offered));
    }
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        text.commands.push_back(program_text(*command, offered));
    return text;
}

std::string summary_of(const std::string& description) {
    std::string line = description.substr(0, description.find("\n  "));
    std::ranges::replace(line, '\n', ' ');
    line.resize(std::min({line.find(". "), line.find("; "), line.size()}));
    if (line.ends_with('.') || line.ends_with(':')) line.pop_back();
    return line;
}

}  // namespace tilescope
