#pragma once

#include <sys/resource.h>

#include <csignal>

namespace tilescope::test {

/// No file may grow beyond `bytes` while this lives: to the program it looks like a full disk.
class FileSizeLimit {
 public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit = {bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

 private:
    void (*handler_)(int);
    rlimit before_ = {};
};

}  // namespace tilescope::test
