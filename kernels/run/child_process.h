#pragma once

// Programs that are started and waited for, and a folder for what they leave.

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tilescope {

enum class ChildOutput : std::uint8_t {
    shown,  ///< stdout and stderr are the caller's
    dropped
};

/// Runs the program, which is looked for in PATH where it has no slash, and waits for it. Returns the status that waitpid
/// gives. Errors: Error where it cannot be started, with that advice.
int run_child(const std::vector<std::string>& command, ChildOutput output, const std::string& advice);
/// The same with stdout and stderr in a file.
int run_child(const std::vector<std::string>& command, const std::filesystem::path& log,
              const std::string& advice);

/// While this lives, signals that ask this process to end do not end it, so that it can clear up. What does not come from the
/// keyboard, which asks the child as well, is passed on to it. One at a time.
class PostponedSignals {
 public:
    PostponedSignals();
    ~PostponedSignals();
    PostponedSignals(const PostponedSignals&) = delete;
    PostponedSignals& operator=(const PostponedSignals&) = delete;

    /// The last one; 0: none.
    static int caught();

 private:
    std::map<int, struct sigaction> before_;
};

/// A new folder in TMPDIR that goes when this does, with all that is in it.
class ScratchFolder {
 public:
    /// `name`: "sweep". Errors: Error where none can be made.
    explicit ScratchFolder(const std::string& name);
    ~ScratchFolder();
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }

 private:
    std::filesystem::path path_;
};

}  // namespace tilescope
