#pragma once

#include <string>
#include <string_view>

namespace tilescope {

/// The text as a shell reads it back as one word.
std::string shell_word(std::string_view text);

}  // namespace tilescope
