#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "dump/schema/comparison.h"

namespace tilescope {

/// Where a hook stands. The file is a path below its project, with '/': never absolute, without "." and "..".
struct SourceLine {
    std::string file;
    std::int64_t line = 0;  ///< counted from 1

    TILESCOPE_EQUALITY(SourceLine);
};

/// Of a stage, in a recording.
inline constexpr std::size_t max_hooks = 128;
inline constexpr std::size_t max_source_file = 200;  ///< bytes

/// What is kept of a path: a relative one without "." and "..", of an absolute one the last two components. Bytes that a terminal
/// does not show become '?'.
std::string kept_path(std::string_view path);

/// "kernels/attention/fast_body.cuh:61".
std::string to_string(const SourceLine& source);

/// The other way, of text from outside; nullopt for what to_string() does not write.
std::optional<SourceLine> source_line_from(std::string_view text);

}  // namespace tilescope
