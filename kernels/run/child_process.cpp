#include "kernels/run/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

std::atomic<pid_t> running_child = 0;
std::atomic<int> postponed_signal = 0;

/// What a keyboard sends has reached the child, too.
void pass_on(pid_t child, int signal) {
    const bool from_keyboard = signal == SIGINT || signal == SIGQUIT;
    if (child > 0 && signal != 0 && !from_keyboard) kill(child, signal);
}

void postpone(int signal) {
    postponed_signal = signal;
    pass_on(running_child, signal);
}

/// `log` takes stdout and stderr; empty: they are the caller's.
int run_logged(const std::vector<std::string>& command, const std::string& log, const std::string& advice) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    if (!log.empty()) {
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                         0666);
        posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    }
    pid_t child = 0;
    const int failed = posix_spawnp(&child, arguments[0], &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0)
        throw Error(std::string("cannot be started: ") + std::strerror(failed), command[0], advice);
    running_child = child;
    // What came before the child was known.
    pass_on(child, postponed_signal);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) throw Error("was waited for by someone else", command[0], "run it by hand");
    }
    running_child = 0;
    return status;
}

}  // namespace

int run_child(const std::vector<std::string>& command, ChildOutput output, const std::string& advice) {
    return run_logged(command, output == ChildOutput::dropped ? "/dev/null" : "", advice);
}

int run_child(const std::vector<std::string>& command, const std::filesystem::path& log,
              const std::string& advice) {
    return run_logged(command, log.string(), advice);
}

PostponedSignals::PostponedSignals() {
    postponed_signal = 0;
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGQUIT}) {
        struct sigaction action = {};
        sigaction(signal, nullptr, &action);
        // Who ignores them wants that.
        if (action.sa_handler == SIG_IGN) continue;
        before_[signal] = action;
        action.sa_handler = postpone;
        action.sa_flags = SA_RESTART;
        sigaction(signal, &action, nullptr);
    }
}

PostponedSignals::~PostponedSignals() {
    for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
}

int PostponedSignals::caught() {
    return postponed_signal;
}

ScratchFolder::ScratchFolder(const std::string& name) {
    std::string folder =
        (std::filesystem::temp_directory_path() / ("tilescope-" + name + "-XXXXXX")).string();
    if (mkdtemp(folder.data()) == nullptr)
        throw Error("no folder can be made there", folder, "set TMPDIR to a folder with room");
    path_ = folder;
}

ScratchFolder::~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace tilescope
