// However the work of a program ends, its exit code is one of its own.

#include "dump/cli/program.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "dump/cli/threads.h"

namespace tilescope::test {
namespace {

/// Status, as waitpid has it, of a process that returns what `main` returns.
int status_of(
    const std::function<int()>& main, const std::function<void(pid_t)>& meanwhile = [](pid_t) {}) {
    const pid_t child = fork();
    // Nothing is caught by the test program.
    if (child == 0) [&]() noexcept { _exit(main()); }();
    meanwhile(child);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

/// Exit code where the reason is the expected one.
constexpr int unfinished = 77;

int supervise(const std::function<int()>& work, const std::string& reason) {
    return run_supervised(work, [&](const std::string& how) { return how == reason ? unfinished : 78; });
}

void expect_exit(int status, int code) {
    EXPECT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), code);
}

TEST(Supervised, ReturnsWhatTheWorkReturns) {
    for (const int code : {0, 1, 2})
        expect_exit(status_of([&] { return supervise([&] { return code; }, ""); }), code);
}

TEST(Supervised, SaysHowTheWorkEnded) {
    const auto crash = [] {
        std::signal(SIGSEGV, SIG_DFL);
        return raise(SIGSEGV);
    };
    expect_exit(status_of([&] { return supervise(crash, "it crashes: Segmentation fault"); }), unfinished);
    expect_exit(status_of([&] { return supervise([]() -> int { throw 1; }, "it crashes: Aborted"); }),
                unfinished);
    // As libgomp does where it cannot start a thread.
    expect_exit(
        status_of([] { return supervise([]() -> int { _exit(1); }, "a library ends it with exit code 1"); }),
        unfinished);
    expect_exit(status_of([] {
                    return supervise([] { return raise(SIGKILL); },
                                     "it was killed, perhaps for lack of memory");
                }),
                unfinished);
}

TEST(Supervised, EndsWithTheSignalThatAsksIt) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        const auto work = [&] {
            static_cast<void>(!write(ready[1], "", 1));
            pause();
            return 0;
        };
        const int status = status_of([&] { return supervise(work, ""); },
                                     [&](pid_t child) {
                                         char byte = 0;
                                         EXPECT_EQ(read(ready[0], &byte, 1), 1);
                                         kill(child, signal);
                                     });
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
        close(ready[0]);
        close(ready[1]);
    }
}

TEST(Supervised, GoesWithItsParent) {
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    const auto work = [&] {
        static_cast<void>(!write(alive[1], "", 1));
        for (;;) pause();
        return 0;
    };
    status_of([&] { return supervise(work, ""); },
              [&](pid_t child) {
                  char byte = 0;
                  EXPECT_EQ(read(alive[0], &byte, 1), 1);
                  kill(child, SIGKILL);
              });
    close(alive[1]);
    char byte = 0;
    EXPECT_EQ(read(alive[0], &byte, 1), 0) << "the pipe's other end is closed when the last process is gone";
    close(alive[0]);
}

TEST(Program, WritesMoreThanAFileMayHold) {
    const auto work = [] {
        const rlimit none = {0, 0};
        setrlimit(RLIMIT_FSIZE, &none);
        std::FILE* scratch = std::tmpfile();
        return std::fputs("text", scratch) >= 0 && std::fflush(scratch) != 0 && errno == EFBIG ? 0 : 1;
    };
    expect_exit(status_of([&] { return run_program(work); }), 0);
}

/// Touches a MiB of stack.
int touch_stack() {
    volatile char room[1 << 20];
    for (std::size_t i = 0; i < sizeof room; i += 512) room[i] = 1;
    return room[512] - 1;
}

TEST(Program, HasAUsualStackUnderASmallLimit) {
    const auto main = [] {
        const rlimit small = {65536, 65536};
        setrlimit(RLIMIT_STACK, &small);
        return run_program([] {
            int failed = touch_stack();
            std::thread([&] { failed += touch_stack(); }).join();
            return failed;
        });
    };
    expect_exit(status_of(main), 0);
}

TEST(Threads, AreAllWhereNothingForbidsThem) {
    for (const int wanted : {1, 2, 16}) EXPECT_EQ(startable_threads(wanted), wanted);
}

TEST(Threads, AreFewerWhereTheSystemRefusesThem) {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer needs more address space than can be limited";
#endif
    const auto main = [] {
        std::ifstream statm("/proc/self/statm");
        rlim_t pages = 0;
        statm >> pages;
        // Of stacks of 8 MiB there is room for 7.
        const rlim_t bytes = pages * rlim_t(sysconf(_SC_PAGESIZE)) + (rlim_t(60) << 20);
        const rlimit stack = {rlim_t(8) << 20, RLIM_INFINITY};
        const rlimit memory = {bytes, bytes};
        if (setrlimit(RLIMIT_STACK, &stack) != 0 || setrlimit(RLIMIT_AS, &memory) != 0) return 3;
        const int threads = startable_threads(64);
        return threads >= 1 && threads <= 8 && startable_threads(64) == threads ? 0 : 1;
    };
    expect_exit(status_of(main), 0);
}

}  // namespace
}  // namespace tilescope::test
