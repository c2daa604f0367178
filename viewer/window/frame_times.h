#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tilescope::viewer {

/// How long frames took, for the benchmark.
class FrameTimes {
 public:
    using Clock = std::chrono::steady_clock;

    explicit FrameTimes(Clock::time_point start) : start_(start) {}
    void add(double seconds) { frames_.push_back(seconds); }
    /// The first frame whose heatmap has values of a recording; later calls change nothing.
    void first_picture();
    void forget_frames() { frames_.clear(); }
    /// JSON: first_picture_s, frames, p50_ms, p95_ms, max_ms, late, peak_mib. Late are those that took longer
    /// than at 30 frames a second.
    std::string to_json() const;

 private:
    Clock::time_point start_;
    double first_picture_ = -1;
    std::vector<double> frames_;
};

}  // namespace tilescope::viewer
