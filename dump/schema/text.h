#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilescope {

/// Text that comes from outside, such as a file, a path or a command line, as a terminal may show it: UTF-8,
/// in which '?' stands for each byte that is none, each control character and each character that is not seen
/// but changes the order or the lines of others. Lines stay lines. It is cut after about `longest` bytes.
std::string readable(std::string_view text, std::size_t longest = std::string::npos);

/// The same on one line: '?' stands for line ends, too.
std::string one_line(std::string_view text);

/// The same, cut after about `longest` bytes.
std::string shortened(std::string_view text, std::size_t longest = 200);

/// The pieces between each two of the separators, one more than there are; some may be empty.
std::vector<std::string_view> split(std::string_view text, char separator);

/// The words with `between` between each two of them.
std::string joined(const std::vector<std::string>& words, std::string_view between);

}  // namespace tilescope
