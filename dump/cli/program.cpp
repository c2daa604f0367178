#include "dump/cli/program.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>

#include "dump/file/unfinished_files.h"

namespace tilescope {

namespace {

constexpr rlim_t enough_stack = rlim_t(8) << 20;

/// Signals that ask a program to end.
constexpr std::array asking = {SIGHUP, SIGINT, SIGTERM, SIGQUIT};

/// HDF5, OpenMP and our own recursion take what a thread usually has.
int run_on_enough_stack(const std::function<int()>& work) {
    rlimit stack = {};
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= enough_stack) return work();
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, enough_stack);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
    int code = 0;
    std::exception_ptr failure;
    std::thread([&] {
        try {
            code = work();
        } catch (...) {
            failure = std::current_exception();
        }
    }).join();
    if (failure) std::rethrow_exception(failure);
    return code;
}

std::atomic<pid_t> supervised = 0;

void pass_on(int signal) {
    kill(supervised.load(), signal);
}

/// Where they would end this process; who ignores them wants the copy to ignore them, too.
void pass_signals_on(pid_t child) {
    supervised = child;
    for (const int signal : asking) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
        action.sa_handler = pass_on;
        action.sa_flags = SA_RESTART;
        sigaction(signal, &action, nullptr);
    }
}

/// What ended the copy is not said by its exit code alone: a library may end it with any.
struct End {
    int status = 0;           ///< as waitpid has it
    std::optional<int> code;  ///< what the work returned
};

End wait_for(pid_t child, int done) {
    End end;
    unsigned char code = 0;
    ssize_t count = 0;
    do {
        count = read(done, &code, 1);
    } while (count < 0 && errno == EINTR);
    if (count == 1) end.code = code;
    while (waitpid(child, &end.status, 0) < 0 && errno == EINTR) {}
    return end;
}

}  // namespace

std::string how_it_ended(int status) {
    if (!WIFSIGNALED(status))
        return "a library ends it with exit code " + std::to_string(WEXITSTATUS(status));
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU) return "it takes more processor time than is allowed";
    if (signal == SIGKILL) return "it was killed, perhaps for lack of memory";
    return std::string("it crashes: ") + strsignal(signal);
}

int run_program(const std::function<int()>& work) {
    std::signal(SIGXFSZ, SIG_IGN);
    remove_unfinished_files_on_signals();
    return run_on_enough_stack(work);
}

int run_supervised(const std::function<int()>& work,
                   const std::function<int(const std::string&)>& unfinished) {
    int done[2] = {-1, -1};
    const pid_t self = getpid();
    std::fflush(nullptr);
    const pid_t child = pipe2(done, O_CLOEXEC) == 0 ? fork() : -1;
    // Where no process can be started, the one that there is does what it can.
    if (child < 0) return run_program(work);
    if (child == 0) {
        close(done[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The parent says in one line what there is to say.
        std::set_terminate([] { std::abort(); });
        if (getppid() != self) _exit(EXIT_FAILURE);
        const int code = run_program(work);
        const auto byte = static_cast<unsigned char>(code);
        static_cast<void>(!write(done[1], &byte, 1));
        return code;
    }
    close(done[1]);
    pass_signals_on(child);
    const End end = wait_for(child, done[0]);
    close(done[0]);
    // A tool that looks for leaks has the last word.
    if (end.code) return WIFEXITED(end.status) ? WEXITSTATUS(end.status) : *end.code;
    const int signal = WIFSIGNALED(end.status) ? WTERMSIG(end.status) : 0;
    if (std::ranges::find(asking, signal) != asking.end()) {
        std::signal(signal, SIG_DFL);
        raise(signal);
    }
    return run_program([&] { return unfinished(how_it_ended(end.status)); });
}

}  // namespace tilescope
