#pragma once

#include <string>
#include <string_view>

namespace tilescope {

/// Text of any origin between the tags of HTML or XML, or inside an attribute.
std::string markup_escaped(std::string_view text);

}  // namespace tilescope
