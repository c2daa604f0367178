#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace tilescope {

/// A progress bar on stderr, drawn only where that is a terminal and the work takes longer than a second.
class Progress {
 public:
    explicit Progress(std::string what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    /// From any thread.
    void update(std::int64_t done, std::int64_t total);

 private:
    std::string what_;
    bool terminal_;
    std::chrono::steady_clock::time_point start_;
    std::mutex mutex_;
    std::int64_t shown_ = -1;
};

}  // namespace tilescope
