#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
/// Of a document's files; `other` may be empty.
std::vector<FileStamp> stamps_of(const std::string& path, const std::string& other);

/// Whether a file that was as `before` was written over in its place: what is read of it now is not of what
/// was opened. One that was removed or replaced can still be read by whoever holds it open.
bool is_written_over(const FileStamp& before, const FileStamp& now);

}  // namespace tilescope::viewer
