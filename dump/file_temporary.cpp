#include "dump/file_temporary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "dump/error.h"

namespace tilescope {

namespace {

const char* const advice = "choose another output file";

[[noreturn]] void fail(const std::string& what, const std::string& target) {
    throw Error(what + ": " + std::strerror(errno), target, advice);
}

// The name in the directory lasts only when the directory itself is on the disk. File systems that cannot do
// this are left alone: the rename has already happened.
void flush_directory(const std::string& target) {
    const std::string directory = std::filesystem::path(target).parent_path().string();
    const int descriptor =
        open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& target) : target_(target) {
    struct stat status = {};
    if (stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        throw Error(S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file", target, advice);
    }
    const std::string stem = target + "." + std::to_string(getpid());
    for (int attempt = 0; descriptor_ < 0; ++attempt) {
        path_ = stem + (attempt == 0 ? "" : "." + std::to_string(attempt)) + ".partial";
        descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor_ < 0 && errno != EEXIST) fail("cannot be created", target);
    }
}

TemporaryFile::~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!committed_) unlink(path_.c_str());
}

void TemporaryFile::commit() {
    if (fsync(descriptor_) != 0) fail("cannot be written to the disk", target_);
    // Some file systems report a failed write only here.
    const int closed = close(descriptor_);
    descriptor_ = -1;
    if (closed != 0) fail("cannot be written to the disk", target_);
    if (std::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to", target_);
    committed_ = true;
    flush_directory(target_);
}

}  // namespace tilescope
