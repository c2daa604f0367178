#pragma once

#include <cstdint>
#include <string>

namespace tilescope::viewer {

/// What tells whether a file is still the one that was opened.
struct FileStamp {
    bool exists = false;
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    std::int64_t modified = 0;  ///< nanoseconds

    bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::string& path);

/// Whether a file that was as `before` has lost what it held: removed, or cut.
bool is_gone(const FileStamp& before, const FileStamp& now);

}  // namespace tilescope::viewer
