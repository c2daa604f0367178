#pragma once

#include <string>

namespace tilescope {

/// A file that appears under its name whole or not at all: it is written beside the name, then renamed. What
/// stood there before stays until then.
class TemporaryFile {
 public:
    /// Creates `target`.PID.partial, open for reading and writing.
    /// Errors: Error when `target` is no regular file, or nothing can be created beside it.
    explicit TemporaryFile(const std::string& target);
    /// Removes the file unless it was committed.
    ~TemporaryFile();
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;

    const std::string& path() const { return path_; }
    int descriptor() const { return descriptor_; }

    /// Writes everything to the disk and renames. Errors: Error when either fails.
    void commit();

 private:
    std::string target_;
    std::string path_;
    int descriptor_ = -1;
    bool committed_ = false;
};

}  // namespace tilescope
