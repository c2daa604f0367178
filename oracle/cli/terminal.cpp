#include "oracle/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace tilescope {

namespace {

std::size_t columns_of_stream(int file) {
    winsize size = {};
    if (isatty(file) == 1 && ioctl(file, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 80;
}

}  // namespace

std::size_t columns_of_stdout() {
    return columns_of_stream(STDOUT_FILENO);
}

std::size_t columns_of_stderr() {
    return columns_of_stream(STDERR_FILENO);
}

bool stdout_has_colour() {
    const auto variable = [](const char* name) {
        const char* const value = std::getenv(name);
        return std::string_view(value == nullptr ? "" : value);
    };
    return isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

}  // namespace tilescope
