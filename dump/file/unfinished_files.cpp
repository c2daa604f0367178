#include "dump/file/unfinished_files.h"

#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace tilescope {

namespace {

/// What a signal handler may read: no memory that is allocated, no lock. A copy of the process has other
/// files.
struct Slot {
    std::atomic<pid_t> owner = 0;  ///< 0: free, -1: being filled
    char path[PATH_MAX] = {};
};
static_assert(std::atomic<pid_t>::is_always_lock_free);

std::array<Slot, 32> slots;
std::atomic<bool> signalled = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void end_by(int signal) {
    signalled = true;
    for (const Slot& slot : slots) {
        if (slot.owner.load() == getpid()) unlink(slot.path);
    }
    // The handler is gone by now, and the signal waits until it has returned.
    raise(signal);
}

}  // namespace

void remove_unfinished_files_on_signals() {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) != 0) continue;
        if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) continue;
        action = {};
        action.sa_handler = end_by;
        action.sa_flags = static_cast<int>(SA_RESETHAND);
        sigaction(signal, &action, nullptr);
    }
}

void UnfinishedFile::note(const std::string& path) {
    std::error_code unknown;
    // The working directory may be another one by then.
    const std::string absolute = std::filesystem::absolute(path, unknown).string();
    if (unknown || absolute.size() >= sizeof(Slot::path)) return;
    for (std::size_t i = 0; i < slots.size(); ++i) {
        pid_t expected = 0;
        if (!slots[i].owner.compare_exchange_strong(expected, -1)) continue;
        std::memcpy(slots[i].path, absolute.c_str(), absolute.size() + 1);
        slots[i].owner = getpid();
        slot_ = int(i);
        break;
    }
    // Another thread ends the process and may have looked already: nothing is created any more.
    while (signalled) pause();
}

void UnfinishedFile::finish() {
    if (slot_ >= 0) slots[std::size_t(slot_)].owner = 0;
    slot_ = -1;
}

}  // namespace tilescope
