#include <algorithm>

#include "dump/schema/program.h"
#include "dump/schema/program_tokens.h"

namespace tilescope {

namespace {

std::size_t offset_of(std::string_view text, ProgramPlace place) {
    std::size_t line = 0;
    for (int i = 1; i < place.line; ++i) line = text.find('\n', line) + 1;
    return line + std::size_t(place.column - 1);
}

/// The statement of a stage in a text.
struct StageStatement {
    std::size_t dtype = 0;    ///< where it stands, or else the formula
    std::size_t formula = 0;  ///< where the = stands
    std::size_t from = 0;     ///< where what a state starts from stands, or else the end
    std::size_t end = 0;
};

StageStatement statement_of(std::string_view text, std::string_view stage) {
    const std::vector<ProgramToken> tokens = program_tokens(text);
    auto token = tokens.begin();
    while (!(token->is("stage") && (token + 1)->is(stage))) ++token;
    StageStatement statement;
    const auto at = [&] { return offset_of(text, token->place); };
    for (++token; !token->is("=") && !token->is(":");) ++token;
    statement.dtype = at();
    while (!token->is("=")) ++token;
    statement.formula = at();
    const auto goes_on = [&] { return token->kind != ProgramToken::Kind::end && !begins_statement(*token); };
    while (goes_on() && !token->is("from")) ++token;
    statement.from = at();
    while (goes_on()) ++token;
    statement.end = at();
    return statement;
}

/// What stands in STAGE=FORMULA before the formula.
struct DeclaredStage {
    std::string name;
    bool has_dtype = false;
    bool has_from = false;
};

DeclaredStage declared_stage(std::string_view declaration) {
    const std::vector<ProgramToken> tokens = program_tokens(declaration);
    const std::string what_to_do = "write STAGE=FORMULA, or STAGE:DTYPE=FORMULA";
    DeclaredStage stage{.name = tokens.front().text};
    auto token = tokens.begin();
    const auto expect = [&](bool is_expected, const std::string& what) {
        if (!is_expected) throw program_error(token->place, what + " is missing", what_to_do);
    };
    expect(token->kind == ProgramToken::Kind::word, "the stage");
    ++token;
    stage.has_dtype = token->is(":");
    if (stage.has_dtype) {
        ++token;
        expect(token->kind == ProgramToken::Kind::word, "the dtype");
        ++token;
    }
    expect(token->is("="), "=");
    ++token;
    expect(token->kind != ProgramToken::Kind::end, "the formula");
    const auto other = std::find_if(token, tokens.end(), begins_statement);
    if (other != tokens.end())
        throw program_error(other->place, "'" + other->text + "' begins another statement",
                            "declare the formula of one stage, and that of another one beside it");
    stage.has_from = std::any_of(token, tokens.end(), [](const ProgramToken& of) { return of.is("from"); });
    return stage;
}

/// Calls it; an error in this line is one of the declaration, whose columns the line has.
template <class Work>
auto in_declaration(const std::string& where, std::ptrdiff_t line, const Work& work) {
    try {
        return work();
    } catch (const Error& error) {
        const std::string said = error.what();
        const std::string place = "line " + std::to_string(line) + ", ";
        throw Error(
            shortened(where, Error::longest_part) + ": " +
            (said.starts_with(place) ? said.substr(place.size()) : "makes no program of the text: " + said));
    }
}

}  // namespace

std::string with_formula(std::string_view text, std::string_view declaration, const std::string& where) {
    std::string line(declaration);
    std::ranges::replace(line, '\n', ' ');
    const DeclaredStage stage = in_declaration(where, 1, [&] { return declared_stage(line); });
    const Program program = parse_program(text);
    std::string names;
    for (const ProgramArray& array : program.arrays)
        if (array.is_stage) names += (names.empty() ? "" : ", ") + array.name;
    const int number = program.array_named(stage.name);
    if (number < 0 || !program.array(number).is_stage)
        throw Error("there is no stage \"" + stage.name + "\"", where, "name one of " + names);
    const StageStatement statement = statement_of(text, stage.name);
    // In a line of its own, at the columns that it has.
    std::string changed(text.substr(0, stage.has_dtype ? statement.dtype : statement.formula));
    const std::ptrdiff_t at = std::ranges::count(changed, '\n') + 2;
    const std::size_t name = line.find(stage.name);
    line.replace(name, stage.name.size(), stage.name.size(), ' ');
    changed += "\n" + line + "\n";
    if (!stage.has_from) changed += text.substr(statement.from, statement.end - statement.from);
    changed += text.substr(statement.end);
    in_declaration(where, at, [&] { return parse_program(changed); });
    return changed;
}

}  // namespace tilescope
