#include "viewer/window/frame_times.h"

#include <sys/resource.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tilescope::viewer {

namespace {

double peak_mib() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_maxrss) / 1024;
}

/// The smallest of the sorted values that `share` of them do not exceed.
double percentile(const std::vector<double>& sorted, double share) {
    if (sorted.empty()) return 0;
    const auto index = std::size_t(share * double(sorted.size()));
    return sorted[std::min(index, sorted.size() - 1)];
}

double seconds(FrameTimes::Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
}

}  // namespace

void FrameTimes::add(const Frame& frame) {
    layouts_.push_back(seconds(frame.laid_out));
    computed_.push_back(seconds(frame.computed));
    frames_.push_back(seconds(frame.drawn));
}

FrameTimes::Clock::duration FrameTimes::computed_so_far() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    const auto of = [](const timeval& time) {
        return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
}

void FrameTimes::add_picture(Clock::duration drawn) {
    pictures_.push_back(seconds(drawn));
}

void FrameTimes::first_picture() {
    if (first_picture_ < 0) first_picture_ = seconds(Clock::now() - start_);
}

void FrameTimes::judged() {
    if (judged_ < 0) judged_ = seconds(Clock::now() - start_);
}

void FrameTimes::forget_frames() {
    layouts_.clear();
    computed_.clear();
    frames_.clear();
    pictures_.clear();
}

std::string FrameTimes::to_json() const {
    const auto in_order = [](std::vector<double> values) {
        std::ranges::sort(values);
        return values;
    };
    const std::vector<double> sorted = in_order(frames_);
    constexpr double in_time = 0.033;
    const auto late = std::ranges::count_if(sorted, [](double seconds) { return seconds > in_time; });
    const nlohmann::json json = {{"first_picture_s", first_picture_},
                                 {"judged_s", judged_},
                                 {"frames", sorted.size()},
                                 {"p50_ms", 1000 * percentile(sorted, 0.5)},
                                 {"p95_ms", 1000 * percentile(sorted, 0.95)},
                                 {"max_ms", sorted.empty() ? 0 : 1000 * sorted.back()},
                                 {"late", late},
                                 {"layout_p95_ms", 1000 * percentile(in_order(layouts_), 0.95)},
                                 {"layout_cpu_p95_ms", 1000 * percentile(in_order(computed_), 0.95)},
                                 {"picture_p95_ms", 1000 * percentile(in_order(pictures_), 0.95)},
                                 {"peak_mib", peak_mib()}};
    return json.dump(2) + "\n";
}

}  // namespace tilescope::viewer
