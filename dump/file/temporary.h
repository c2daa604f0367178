#pragma once

#include <string>

#include "dump/file/unfinished_files.h"

namespace tilescope {

/// A file that appears under its name whole or not at all: it is written beside the name, then renamed. What
/// stood there before stays until then. Its writer alone can read it until then, and holds it (file_lock.h):
/// what a writer that was killed has left goes with the next writer of the same name.
class TemporaryFile {
 public:
    /// Creates `target`.PID.partial, open for reading and writing.
    /// Errors: Error when `target` is no regular file, or is held by somebody, or nothing can be created
    /// beside it.
    explicit TemporaryFile(const std::string& target);
    /// Removes the file unless it was committed.
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const std::string& path() const { return path_; }
    int descriptor() const { return descriptor_; }

    /// Who may read it under its name: whom the file that stood there let, or else whom the umask lets; or
    /// nobody but its owner.
    enum class Readers { as_usual, owner };
    /// Writes everything to the disk and renames. Errors: Error when either fails, or `target` is held.
    void commit(Readers readers = Readers::as_usual);

 private:
    void create();

    std::string target_;
    std::string path_;
    UnfinishedFile unfinished_;
    int descriptor_ = -1;
    bool committed_ = false;
};

}  // namespace tilescope
