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

}  // namespace

void FrameTimes::first_picture() {
    if (first_picture_ < 0) first_picture_ = std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string FrameTimes::to_json() const {
    std::vector<double> sorted = frames_;
    std::ranges::sort(sorted);
    constexpr double in_time = 0.033;
    const auto late = std::ranges::count_if(sorted, [](double seconds) { return seconds > in_time; });
    const nlohmann::json json = {{"first_picture_s", first_picture_},
                                 {"frames", sorted.size()},
                                 {"p50_ms", 1000 * percentile(sorted, 0.5)},
                                 {"p95_ms", 1000 * percentile(sorted, 0.95)},
                                 {"max_ms", sorted.empty() ? 0 : 1000 * sorted.back()},
                                 {"late", late},
                                 {"peak_mib", peak_mib()}};
    return json.dump(2) + "\n";
}

}  // namespace tilescope::viewer
