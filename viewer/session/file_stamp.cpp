#include "viewer/session/file_stamp.h"

#include <sys/stat.h>

namespace tilescope::viewer {

FileStamp stamp_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {true, std::uint64_t(found.st_dev), std::uint64_t(found.st_ino), std::int64_t(found.st_size),
            std::int64_t(found.st_mtim.tv_sec) * 1'000'000'000 + found.st_mtim.tv_nsec};
}

std::vector<FileStamp> stamps_of(const std::string& path, const std::string& other) {
    std::vector<FileStamp> stamps = {stamp_of(path)};
    if (!other.empty()) stamps.push_back(stamp_of(other));
    return stamps;
}

bool is_written_over(const FileStamp& before, const FileStamp& now) {
    return now.exists && now != before && now.device == before.device && now.inode == before.inode;
}

}  // namespace tilescope::viewer
