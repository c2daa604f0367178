#include "dump/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "dump/cli/program_text.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// "tile-run record".
std::string name_of(const CLI::App& app) {
    const CLI::App* parent = app.get_parent();
    return parent == nullptr ? app.get_name() : name_of(*parent) + " " + app.get_name();
}

/// "-o,--output".
std::string name_of(const CLI::Option& option) {
    return option.get_name(false, true);
}

/// What the option takes, without what limits it.
std::string type_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    return type.substr(0, type.find(':'));
}

const CLI::App& chosen_in(const CLI::App& app) {
    const std::vector<CLI::App*> parsed = app.get_subcommands();
    return parsed.empty() ? app : chosen_in(*parsed.front());
}

std::string advice_of(const CLI::App& app) {
    return "see " + name_of(app) + " --help";
}

/// Where `name` stands in the message as a word.
std::size_t place_in(const std::string& message, const std::string& name) {
    const std::string ends = " :=";
    for (std::size_t at = message.find(name); at != std::string::npos; at = message.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        const bool ends_there = end == message.size() || ends.find(message[end]) != std::string::npos;
        if (ends_there && (at == 0 || message[at - 1] == ' ')) return at;
    }
    return std::string::npos;
}

/// The option that the message of CLI11 names first; null where it names none.
const CLI::Option* option_named_in(const CLI::App& app, const std::string& message) {
    const CLI::Option* found = nullptr;
    std::size_t first = std::string::npos;
    for (const CLI::Option* option : app.get_options()) {
        const std::size_t at = place_in(message, option->get_name());
        if (at >= first) continue;
        first = at;
        found = option;
    }
    return found;
}

Error no_subcommand(const CLI::App& app, const std::vector<std::string>& unexpected) {
    std::vector<std::string> names;
    for (const CLI::App* each : app.get_subcommands({})) names.push_back(each->get_name());
    std::string what = "no subcommand is given";
    if (!unexpected.empty()) {
        const std::string& first = unexpected.front();
        what = first.starts_with('-') ? "no subcommand stands before " + first
                                      : "there is no subcommand " + first;
    }
    return {what, "command line", "choose one of " + joined(names, ", ") + ", " + advice_of(app)};
}

/// Says which of the other subcommands have an option that this one lacks.
Error no_such(const CLI::App& app, const std::string& argument) {
    if (!argument.starts_with('-'))
        return {name_of(app) + " takes no such argument", argument, advice_of(app)};
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string> others;
    if (const CLI::App* parent = app.get_parent()) {
        for (const CLI::App* other : parent->get_subcommands({})) {
            if (other->get_option_no_throw(name) != nullptr) others.push_back(name_of(*other));
        }
    }
    return {
        name_of(app) + " has no such option" +
            (others.empty() ? "" : ", but " + joined(others, ", ") + (others.size() > 1 ? " have" : " has")),
        name, "leave it out, or " + advice_of(app)};
}

Error missing(const CLI::App& app) {
    for (const CLI::Option* option : app.get_options()) {
        if (!option->get_required() || option->count() > 0) continue;
        return {
            "it is required and not given", name_of(*option),
            (option->get_positional() ? "give it, " : "give " + type_of(*option) + ", ") + advice_of(app)};
    }
    return {"an option that is required is not given", "command line", advice_of(app)};
}

std::string wrong_count(const CLI::Option& option) {
    const int least = option.get_items_expected_min();
    const int most = option.get_items_expected_max();
    const int given = int(option.count());
    if (given == 0) return "it has no value";
    std::string text = "it takes ";
    if (least != most) text += given < least ? "at least " : "at most ";
    const int wanted = given < least ? least : most;
    text += std::to_string(wanted) + (wanted == 1 ? " value" : " values");
    return text + " and " + std::to_string(given) + (given == 1 ? " is given" : " are given");
}

/// "--csv requires --sweep" of CLI11, and the like.
std::string other_option(const std::string& message, const std::string& relation) {
    const std::size_t at = message.find(relation);
    return at == std::string::npos ? "another option" : message.substr(at + relation.size());
}

Error explained(const CLI::App& app, const CLI::ParseError& error) {
    const std::string message = error.what();
    const std::vector<std::string> unexpected = app.remaining();
    const bool needs_subcommand = app.get_require_subcommand_min() > 0 && app.get_subcommands().empty();
    const bool lacks_something = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
    if (lacks_something && needs_subcommand) return no_subcommand(app, unexpected);
    // An option that is not there is nearer to the mistake than one that is missing.
    const bool has_too_much = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if ((lacks_something || has_too_much) && !unexpected.empty()) return no_such(app, unexpected.front());
    if (lacks_something) return missing(app);

    const CLI::Option* option = option_named_in(app, message);
    if (option == nullptr) return {message, "command line", advice_of(app)};
    const std::string where = name_of(*option);
    const std::string type = type_of(*option);
    if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
        return {wrong_count(*option), where, (type.empty() ? "" : "give " + type + ", ") + advice_of(app)};
    if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr)
        return {joined(option->results(), ",") +
                    (type.empty() ? " is nothing that a flag takes" : " cannot be read as " + type),
                where, advice_of(app)};
    if (dynamic_cast<const CLI::RequiresError*>(&error) != nullptr)
        return {"it needs " + other_option(message, " requires "), where,
                "add that or leave it out, " + advice_of(app)};
    if (dynamic_cast<const CLI::ExcludesError*>(&error) != nullptr)
        return {"it excludes " + other_option(message, " excludes "), where,
                "leave one of them out, " + advice_of(app)};
    const std::string prefix = option->get_name() + ": ";
    return {message.starts_with(prefix) ? message.substr(prefix.size()) : message, where, advice_of(app)};
}

struct Description {
    const char* name;
    std::string (*text)(const CommandText& program);
};
constexpr Description descriptions[] = {
    {"man", man_page}, {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

/// Null where none is asked for.
const Description* asked_description(std::span<const std::string> arguments) {
    if (arguments.size() != 2 || arguments[0] != "--describe") return nullptr;
    const auto found = std::ranges::find(descriptions, arguments[1], &Description::name);
    return found == std::end(descriptions) ? nullptr : found;
}

}  // namespace

bool asks_for_description(std::span<const std::string> arguments) {
    return asked_description(arguments) != nullptr;
}

std::string parse_command_line(CLI::App& app, std::vector<std::string> arguments,
                               std::span<const OfferedWords> offered) {
    app.set_version_flag("--version", app.get_name() + " " TILESCOPE_VERSION, "Print the version and exit");
    if (const Description* const asked = asked_description(arguments))
        return asked->text(program_text(app, offered));
    std::ranges::reverse(arguments);
    try {
        app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
        return app.help();
    } catch (const CLI::CallForVersion&) {
        return app.version() + "\n";
    } catch (const CLI::ParseError& error) {
        throw explained(chosen_in(app), error);
    }
    return "";
}

}  // namespace tilescope
