#include "viewer/file_stamp.h"

#include <sys/stat.h>

namespace tilescope::viewer {

FileStamp stamp_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {true, std::uint64_t(found.st_dev), std::uint64_t(found.st_ino), std::int64_t(found.st_size),
            std::int64_t(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec};
}

bool is_gone(const FileStamp& before, const FileStamp& now) {
    return !now.exists || (now.inode == before.inode && now.bytes < before.bytes);
}

}  // namespace tilescope::viewer
