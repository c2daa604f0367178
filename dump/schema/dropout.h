#pragma once

#include <string>
#include <string_view>

namespace tilescope {

// Dropout multiplies P with random numbers that no oracle draws: a recording, a declaration or a call that names it is
// refused, whatever it calls it.

/// Whether a name speaks of it: "dropout_p", "attn_dropout".
bool names_dropout(std::string_view name);

/// Whether a value says that there is none: a number that is 0, false, none, or nothing.
bool is_no_dropout(std::string_view value);

/// Errors: Error(where), always.
[[noreturn]] void refuse_dropout(std::string_view name, const std::string& where);

}  // namespace tilescope
