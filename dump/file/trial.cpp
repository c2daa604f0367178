#include "dump/file/trial.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <fstream>
#include <new>
#include <string>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

// Opening walks the index of every dataset: a tenth of a second and a few MiB for half a million tiles.
constexpr rlim_t cpu_seconds = 3;
constexpr rlim_t more_memory = rlim_t(1) << 30;

// Seconds that a copy may wait for what is not the processor. A lock that another thread of ours held at the moment
// of the copy is never released in it: that says nothing of the file, and the next copy has better luck.
constexpr unsigned waits[] = {5, 10, 30};

// Exit codes of a copy.
constexpr int out_of_memory = 3;
constexpr int has_thrown = 4;

void limit(int resource, rlim_t value) {
    const rlimit both = {value, value};
    // The C library declares an enumeration for C++ alone.
    setrlimit(static_cast<decltype(RLIMIT_CPU)>(resource), &both);
}

void limit_resources(unsigned seconds) {
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_CPU, cpu_seconds);
    alarm(seconds);
    rlim_t pages = 0;
    if (std::ifstream("/proc/self/statm") >> pages) {
        limit(RLIMIT_AS, pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + more_memory);
    }
}

void write_line(int descriptor, const char* line) {
    std::size_t size = std::strlen(line);
    while (size > 0) {
        const ssize_t count = write(descriptor, line, size);
        if (count <= 0) return;
        line += count;
        size -= static_cast<std::size_t>(count);
    }
}

[[noreturn]] void run_child(const std::function<std::string()>& task, unsigned seconds, int answer) {
    // A crash here is reported by the parent: no handler, no message, no core file.
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGXCPU, SIGALRM}) {
        std::signal(signal, SIG_DFL);
    }
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) dup2(nowhere, STDERR_FILENO);
    limit_resources(seconds);
    try {
        write_line(answer, task().c_str());
    } catch (const std::bad_alloc&) {
        _exit(out_of_memory);
    } catch (const std::exception& error) {
        write_line(answer, error.what());
        _exit(has_thrown);
    }
    _exit(0);
}

std::string read_line(int descriptor) {
    std::string line;
    char part[512];
    for (;;) {
        const ssize_t count = read(descriptor, part, sizeof part);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return line;
        line.append(part, static_cast<std::size_t>(count));
    }
}

std::string death_of(int status) {
    if (!WIFSIGNALED(status)) {
        const int code = WEXITSTATUS(status);
        return code == 0 || code == has_thrown ? "" : "it crashes";
    }
    const int signal = WTERMSIG(status);
    const bool slow = signal == SIGXCPU || signal == SIGKILL || signal == SIGALRM;
    return slow ? "it takes too long" : std::string("it crashes: ") + strsignal(signal);
}

/// How a copy ended, and what it said.
struct End {
    int status = 0;
    double cpu_seconds = 0;  ///< that it computed
    std::string message;
};

End run_copy(const std::function<std::string()>& task, unsigned seconds, const std::string& where) {
    int answer[2] = {-1, -1};
    if (pipe2(answer, O_CLOEXEC) != 0) {
        throw Error(std::string("cannot be checked: ") + std::strerror(errno), where, "close other programs");
    }
    const pid_t child = fork();
    if (child == 0) run_child(task, seconds, answer[1]);
    const int fork_error = errno;
    close(answer[1]);
    End end;
    if (child >= 0) end.message = read_line(answer[0]);
    close(answer[0]);
    if (child < 0) {
        throw Error(std::string("cannot be checked: ") + std::strerror(fork_error), where,
                    "close other programs");
    }
    rusage used = {};
    while (wait4(child, &end.status, 0, &used) < 0) {
        if (errno != EINTR) break;
    }
    end.cpu_seconds = double(used.ru_utime.tv_sec) + 1e-6 * double(used.ru_utime.tv_usec);
    return end;
}

/// Whether the copy ended in waiting, and not in computing on a busy machine.
bool is_waiting(const End& end) {
    return WIFSIGNALED(end.status) && WTERMSIG(end.status) == SIGALRM && end.cpu_seconds < 1;
}

}  // namespace

std::string ask_in_child(const std::function<std::string()>& task, const std::string& where) {
    End end;
    for (const unsigned seconds : waits) {
        end = run_copy(task, seconds, where);
        if (!is_waiting(end)) break;
    }
#ifdef TILESCOPE_FUZZ
    // Only what this process does tells a fuzzer where to go on; what HDF5 crashes on is none of its business.
    if (WIFEXITED(end.status)) return "";
#endif
    if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == out_of_memory) {
        throw Error("opening it takes more memory than there is, or more than 1 GiB", where,
                    "allow more memory, or record it again");
    }
    const std::string death = death_of(end.status);
    if (!death.empty()) {
        throw Error("HDF5 does not survive opening it (" + death + ")", where,
                    "the file is damaged or malicious: record it again");
    }
    if (WIFEXITED(end.status) && WEXITSTATUS(end.status) == has_thrown) throw Error(end.message);
    return end.message;
}

}  // namespace tilescope
