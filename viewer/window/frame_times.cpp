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

void FrameTimes::add(Clock::duration laid_out, Clock::duration drawn) {
    layouts_.push_back(seconds(laid_out));
    frames_.push_back(seconds(drawn));
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
    frames_.clear();
    pictures_.clear();
}

std::string FrameTimes::to_json() const {
    std::vector<double> sorted = frames_;
    std::ranges::sort(sorted);
    std::vector<double> layouts = layouts_;
    std::ranges::sort(layouts);
    std::vector<double> pictures = pictures_;
    std::ranges::sort(pictures);
    constexpr double in_time = 0.033;
    const auto late = std::ranges::count_if(sorted, [](double seconds) { return seconds > in_time; });
    const nlohmann::json json = {{"first_picture_s", first_picture_},
                                 {"judged_s", judged_},
                                 {"frames", sorted.size()},
                                 {"p50_ms", 1000 * percentile(sorted, 0.5)},
                                 {"p95_ms", 1000 * percentile(sorted, 0.95)},
                                 {"max_ms", sorted.empty() ? 0 : 1000 * sorted.back()},
                                 {"late", late},
                                 {"layout_p95_ms", 1000 * percentile(layouts, 0.95)},
                                 {"picture_p95_ms", 1000 * percentile(pictures, 0.95)},
                                 {"peak_mib", peak_mib()}};
    return json.dump(2) + "\n";
}

}  // namespace tilescope::viewer
