#include "dump/file/temporary.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "dump/file/lock.h"
#include "dump/schema/error.h"

namespace tilescope {

namespace {

const char* const advice = "choose another output file";
constexpr std::string_view ending = ".partial";

[[noreturn]] void fail(const std::string& what, const std::string& target) {
    throw Error(what + ": " + std::strerror(errno), target, advice);
}

std::string folder_of(const std::string& target) {
    const std::string folder = std::filesystem::path(target).parent_path().string();
    return folder.empty() ? "." : folder;
}

// The name in the directory lasts only when the directory itself is on the disk. File systems that cannot do
// this are left alone: the rename has already happened.
void flush_directory(const std::string& target) {
    const int descriptor = open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
}

/// A sink that a kernel still writes to must not lose its name.
void require_free(const std::string& target) {
    const int descriptor = open(target.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    const bool held = is_held(descriptor);
    close(descriptor);
    if (held) {
        throw Error("holds the tiles of a run that has not ended", target,
                    "choose another output file, or wait for the run");
    }
}

/// Whether `name` is that of a temporary file: `begin`, digits and dots, and the ending.
bool is_temporary(std::string_view name, const std::string& begin) {
    if (!name.starts_with(begin) || !name.ends_with(ending)) return false;
    if (name.size() <= begin.size() + ending.size()) return false;
    name = name.substr(begin.size(), name.size() - begin.size() - ending.size());
    return std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

void remove_unless_held(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) return;
    struct stat opened = {};
    struct stat named = {};
    const bool ours =
        fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == geteuid();
    if (ours && hold_file(descriptor) == 0 && lstat(path.c_str(), &named) == 0 &&
        named.st_dev == opened.st_dev && named.st_ino == opened.st_ino) {
        unlink(path.c_str());
    }
    close(descriptor);
}

/// What writers of the same name have left that were killed.
void remove_abandoned(const std::string& target) {
    const std::string begin = std::filesystem::path(target).filename().string() + ".";
    std::error_code end;
    for (std::filesystem::directory_iterator entry(folder_of(target), end), last; !end && entry != last;
         entry.increment(end)) {
        const std::string path = entry->path().string();
        if (is_temporary(entry->path().filename().string(), begin)) remove_unless_held(path);
    }
}

/// Asking the system for it means to set it, for all threads.
mode_t umask_of_process() {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
        if (line.starts_with("Umask:")) return static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
    }
    const mode_t mask = umask(077);
    umask(mask);
    return mask;
}

mode_t usual_mode(const std::string& target) {
    struct stat before = {};
    if (stat(target.c_str(), &before) == 0) return before.st_mode & 0777;
    return 0666 & ~umask_of_process();
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& target) : target_(target) {
    struct stat status = {};
    if (stat(target.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
        throw Error(S_ISDIR(status.st_mode) ? "is a directory" : "is not a regular file", target, advice);
    }
    require_free(target);
    remove_abandoned(target);
    create();
}

void TemporaryFile::create() {
    const std::string stem = target_ + "." + std::to_string(getpid());
    for (int attempt = 0;; ++attempt) {
        path_ = stem + (attempt == 0 ? "" : "." + std::to_string(attempt)) + std::string(ending);
        unfinished_.note(path_);
        descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (descriptor_ < 0) unfinished_.finish();
        if (descriptor_ < 0 && errno == EEXIST) continue;
        if (descriptor_ < 0) fail("cannot be created", target_);
        // Until it is held, another writer may take it for one that was left.
        const bool taken = hold_file(descriptor_) == EAGAIN;
        struct stat status = {};
        if (!taken && fstat(descriptor_, &status) == 0 && status.st_nlink > 0) return;
        close(descriptor_);
        unfinished_.finish();
    }
}

TemporaryFile::~TemporaryFile() {
    if (!committed_) unlink(path_.c_str());
    if (descriptor_ >= 0) close(descriptor_);
}

void TemporaryFile::commit(Readers readers) {
    // What has no such modes keeps its own.
    if (readers == Readers::as_usual) static_cast<void>(fchmod(descriptor_, usual_mode(target_)));
    if (fsync(descriptor_) != 0) fail("cannot be written to the disk", target_);
    // Some file systems report a failed write only when it is closed, and until it is renamed it is held.
    const int held = fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
    const int closed = close(descriptor_);
    descriptor_ = held;
    if (closed != 0) fail("cannot be written to the disk", target_);
    require_free(target_);
    if (std::rename(path_.c_str(), target_.c_str()) != 0) fail("cannot be renamed to", target_);
    committed_ = true;
    unfinished_.finish();
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
    flush_directory(target_);
}

}  // namespace tilescope
