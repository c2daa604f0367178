#pragma once

#include <string>
#include <string_view>

namespace tilescope {

/// How a program says what other languages call `word`: a function, a sign or a dtype of theirs; "": nothing is known.
std::string_view said_in_a_program(std::string_view word);

/// "write ..." with that, or `otherwise`.
std::string program_hint(std::string_view word, const std::string& otherwise);

}  // namespace tilescope
