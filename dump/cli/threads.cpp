#include "dump/cli/threads.h"

#include <algorithm>
#include <latch>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace tilescope {

namespace {

/// Starts them all at once and returns how many there were.
int try_threads(int count) {
    std::latch all_tried(1);
    std::vector<std::thread> started;
    try {
        started.reserve(std::size_t(count));
        while (std::ssize(started) < count) started.emplace_back([&] { all_tried.wait(); });
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {}
    all_tried.count_down();
    for (std::thread& thread : started) thread.join();
    return int(std::ssize(started));
}

}  // namespace

int startable_threads(int wanted) {
    // Each thread that starts teams has threads of its own for them, and keeps them.
    thread_local int tried = 1;
    thread_local int startable = 1;
    if (wanted > tried) {
        // Twice as many: those of the trial still count for a moment, and the others need memory to work
        // with.
        startable = 1 + try_threads(2 * (wanted - 1)) / 2;
        tried = wanted;
    }
    return std::min(wanted, startable);
}

}  // namespace tilescope
