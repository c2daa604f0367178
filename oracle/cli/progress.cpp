#include "oracle/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "oracle/cli/terminal.h"

namespace tilescope {

namespace {

/// "12 s", "1:46 min", "2:05 h"
std::string duration(double seconds) {
    const auto whole = static_cast<long long>(std::ceil(seconds));
    if (whole < 100) return fmt::format("{} s", whole);
    if (whole < 6000) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
    return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

std::string bar(std::int64_t percent) {
    constexpr std::int64_t width = 40;
    const std::int64_t filled = width * percent / 100;
    return fmt::format("[{:#<{}}{:<{}}]", "", filled, "", width - filled);
}

}  // namespace

Progress::Progress(std::string what, std::string things)
    : what_(std::move(what)),
      things_(std::move(things)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
    clear();
}

void Progress::clear() {
    const std::scoped_lock lock(mutex_);
    if (shown_ >= 0) fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
    shown_ = -1;
}

void Progress::update(std::int64_t done, std::int64_t total) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    if (!terminal_ || elapsed.count() < 1 || done <= 0 || done >= total) return;
    const std::scoped_lock lock(mutex_);
    const std::int64_t percent = 100 * done / total;
    if (percent <= shown_) return;
    shown_ = percent;
    const double rate = double(done) / elapsed.count();
    const std::string count =
        things_.empty() ? bar(percent) : fmt::format("{} of {} {}, {:.1f}/s,", done, total, things_, rate);
    const std::string line =
        fmt::format("{} {} {} %, {} left", what_, count, percent, duration(double(total - done) / rate));
    // A line that is wrapped cannot be taken back.
    fmt::print(stderr, "\r\033[K{}", line.substr(0, columns_of_stderr() - 1));
    std::fflush(stderr);
}

}  // namespace tilescope
