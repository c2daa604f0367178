#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace tilescope {

/// How far the work is, at which rate, and how long it will take, in a line on stderr: drawn only where that is a terminal and
/// the work takes longer than a second.
class Progress {
 public:
    /// `things`: what is counted, "recordings"; empty: a part of the whole.
    Progress(std::string what, std::string things);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// From any thread.
    void update(std::int64_t done, std::int64_t total);

    /// Before something else is printed.
    void clear();

 private:
    std::string what_;
    std::string things_;
    bool terminal_;
    std::chrono::steady_clock::time_point start_;
    std::mutex mutex_;
    std::int64_t shown_ = -1;
};

}  // namespace tilescope
