#include "dump/cli/copies.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "dump/cli/program.h"

namespace tilescope {

namespace {

/// As many results may wait for their turn as this many times the copies that run.
constexpr std::size_t most_ahead = 4;

struct RunningCopy {
    std::size_t piece = 0;
    pid_t process = -1;
    int from = -1;  ///< the end of the pipe that is read
    std::string said;
};

void write_all(int to, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(to, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        bytes.remove_prefix(std::size_t(written));
    }
}

/// What was said with its length before it: what breaks off is told from what is whole.
std::string with_length(const std::string& said) {
    return std::to_string(said.size()) + ":" + said;
}

std::optional<std::string> without_length(const std::string& said) {
    const std::size_t colon = said.find(':');
    if (colon == std::string::npos) return std::nullopt;
    std::string rest = said.substr(colon + 1);
    if (said.substr(0, colon) != std::to_string(rest.size())) return std::nullopt;
    return rest;
}

/// Does the work and ends the process.
[[noreturn]] void be_a_copy(pid_t parent, int to, const std::function<std::string()>& work) {
    // Not SIGKILL: unfinished files go.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    // The parent says in one line what there is to say.
    std::set_terminate([] { std::abort(); });
    if (getppid() != parent) _exit(EXIT_FAILURE);
    write_all(to, with_length(work()));
    std::exit(EXIT_SUCCESS);
}

/// Nullopt where the system refuses.
std::optional<RunningCopy> start_copy(std::size_t piece,
                                      const std::function<std::string(std::size_t)>& work) {
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
    const pid_t self = getpid();
    std::fflush(nullptr);
    const pid_t process = fork();
    if (process == 0) {
        close(ends[0]);
        be_a_copy(self, ends[1], [&] { return work(piece); });
    }
    close(ends[1]);
    if (process > 0) return RunningCopy{piece, process, ends[0], {}};
    close(ends[0]);
    return std::nullopt;
}

/// Reads what is there; false once there will be no more.
bool read_some(RunningCopy& copy) {
    std::array<char, 1 << 16> bytes;
    const ssize_t count = read(copy.from, bytes.data(), bytes.size());
    if (count < 0) return errno == EINTR;
    copy.said.append(bytes.data(), std::size_t(count));
    return count > 0;
}

CopyEnd end_of(const RunningCopy& copy) {
    close(copy.from);
    int status = 0;
    while (waitpid(copy.process, &status, 0) < 0 && errno == EINTR) {}
    // A tool that looks for leaks has the last word.
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        if (std::optional<std::string> said = without_length(copy.said)) return {std::move(said), {}};
    return {std::nullopt, how_it_ended(status)};
}

/// The copies that run; whatever ends this ends them.
class RunningCopies {
 public:
    RunningCopies() = default;
    RunningCopies(const RunningCopies&) = delete;
    RunningCopies& operator=(const RunningCopies&) = delete;
    ~RunningCopies() {
        for (const RunningCopy& copy : copies_) kill(copy.process, SIGTERM);
        for (const RunningCopy& copy : copies_) end_of(copy);
    }

    std::size_t size() const { return copies_.size(); }
    void add(RunningCopy copy) { copies_.push_back(std::move(copy)); }

    /// Waits until one has something to say, and adds those that ended.
    void wait(std::map<std::size_t, CopyEnd>& ended) {
        std::vector<pollfd> pipes;
        for (const RunningCopy& copy : copies_) pipes.push_back({copy.from, POLLIN, 0});
        if (poll(pipes.data(), pipes.size(), -1) <= 0) return;
        for (std::size_t i = copies_.size(); i-- > 0;) {
            if (pipes[i].revents == 0 || read_some(copies_[i])) continue;
            ended[copies_[i].piece] = end_of(copies_[i]);
            copies_.erase(copies_.begin() + std::ptrdiff_t(i));
        }
    }

 private:
    std::vector<RunningCopy> copies_;
};

}  // namespace

void run_copies(std::size_t count, int at_once, const std::function<std::string(std::size_t)>& work,
                const std::function<bool(std::size_t, const CopyEnd&)>& take) {
    const std::size_t most = std::size_t(std::max(at_once, 1));
    RunningCopies running;
    std::map<std::size_t, CopyEnd> ended;
    for (std::size_t next = 0, started = 0; next < count;) {
        while (started < count && running.size() < most && started < next + most_ahead * most) {
            if (std::optional<RunningCopy> copy = start_copy(started, work)) {
                running.add(std::move(*copy));
            } else if (running.size() == 0) {
                ended[started] = {work(started), {}};
            } else {
                break;
            }
            ++started;
        }
        if (running.size() > 0 && !ended.contains(next)) running.wait(ended);
        for (auto end = ended.find(next); end != ended.end(); end = ended.find(next)) {
            const CopyEnd taken = std::move(end->second);
            ended.erase(end);
            if (!take(next++, taken)) return;
        }
    }
}

}  // namespace tilescope
