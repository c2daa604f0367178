#include "oracle/report/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tilescope {

Progress::Progress(std::string what)
    : what_(std::move(what)),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
    if (shown_ >= 0) fmt::print(stderr, "\r\033[K");
}

void Progress::update(std::int64_t done, std::int64_t total) {
    if (!terminal_ || std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
    const std::scoped_lock lock(mutex_);
    const std::int64_t percent = total > 0 ? 100 * done / total : 0;
    if (percent <= shown_) return;
    shown_ = percent;
    constexpr std::int64_t width = 40;
    const std::int64_t filled = width * percent / 100;
    fmt::print(stderr, "\r{} [{:#<{}}{:<{}}] {:>3} %", what_, "", filled, "", width - filled, percent);
    std::fflush(stderr);
}

}  // namespace tilescope
