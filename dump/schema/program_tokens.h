#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dump/schema/error.h"
#include "dump/schema/program.h"

namespace tilescope {

/// A word, a number or a sign of the text of a program.
struct ProgramToken {
    enum class Kind : std::uint8_t { word, number, sign, end };

    Kind kind = Kind::end;
    std::string text{};
    double number = 0;
    bool is_whole = false;  ///< of a number: it is written without a point or an exponent
    ProgramPlace place{};

    bool is(std::string_view sign_or_word) const {
        return kind != Kind::number && kind != Kind::end && text == sign_or_word;
    }
};

/// All of them, and one of Kind::end. What follows # to the end of its line is left out.
std::vector<ProgramToken> program_tokens(std::string_view text);

/// Whether it ends the statement before it: none of these words is a name.
bool begins_statement(const ProgramToken& token);

/// What is wrong at a place of the text.
Error program_error(ProgramPlace place, const std::string& what, const std::string& what_to_do);

}  // namespace tilescope
