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
    /// Of one frame.
    struct Frame {
        Clock::duration laid_out;  ///< until everything was laid out, textures included
        Clock::duration computed;  ///< of that, on the processor: other threads and programs use it as well
        Clock::duration drawn;     ///< until its pixels were drawn
    };
    void add(const Frame& frame);
    /// What the calling thread has used of the processor.
    static Clock::duration computed_so_far();
    /// How long a heatmap's picture took from when it was asked for until the frame with it was drawn.
    void add_picture(Clock::duration drawn);
    /// The first frame whose heatmap has values of a recording; later calls change nothing.
    void first_picture();
    /// The first frame with a report; later calls change nothing.
    void judged();
    void forget_frames();
    /// JSON: first_picture_s, judged_s (-1: not yet), frames, p50_ms, p95_ms, max_ms, late, layout_p95_ms, layout_cpu_p95_ms, picture_p95_ms, peak_mib. Late are
    /// those that took longer than at 30 frames a second.
    std::string to_json() const;

 private:
    Clock::time_point start_;
    double first_picture_ = -1;
    double judged_ = -1;
    std::vector<double> layouts_;
    std::vector<double> computed_;
    std::vector<double> frames_;
    std::vector<double> pictures_;
};

}  // namespace tilescope::viewer
