#include "oracle/cli/timing.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>

namespace tilescope {

namespace {

rusage usage_so_far() {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return usage;
}

}  // namespace

double processor_seconds() {
    const rusage usage = usage_so_far();
    const auto seconds = [](const timeval& time) {
        return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::int64_t bytes_read_so_far() {
    std::ifstream io("/proc/self/io");
    std::string name;
    std::int64_t bytes = 0;
    while (io >> name >> bytes)
        if (name == "rchar:") return bytes;
    return 0;
}

std::int64_t most_resident_bytes() {
    return std::int64_t(usage_so_far().ru_maxrss) << 10;
}

std::string timing_text(const std::vector<Spent>& all, double seconds) {
    std::string text = fmt::format("{{\"seconds\": {:.6f}, \"ranks\": [", seconds);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Spent& one = all[i];
        text += fmt::format(
            "{}\n  {{\"queue\": {:.6f}, \"messages\": {:.6f}, \"stragglers\": {:.6f}, \"shared\": {:.6f}, "
            "\"processor\": {:.6f}, \"threads\": {}, \"pieces\": {}, \"takes\": {}, \"bytes_moved\": {}, "
            "\"bytes_asked\": {}, \"bytes_read\": {}, \"resident_bytes\": {}}}",
            i == 0 ? "" : ",", one.queue, one.messages, one.stragglers, one.shared, one.processor,
            one.threads, one.pieces, one.takes, one.bytes_moved, one.bytes_asked, one.bytes_read,
            one.resident_bytes);
    }
    return text + "\n]}\n";
}

}  // namespace tilescope
