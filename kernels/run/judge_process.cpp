#include "kernels/run/judge_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// Exit status as waitpid gives it.
int run_quietly(const std::string& program, const std::string& recording, const std::string& report) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    const char* arguments[] = {program.c_str(), recording.c_str(), "--json", report.c_str(), nullptr};
    pid_t child = 0;
    const int failed =
        posix_spawn(&child, program.c_str(), &files, nullptr, const_cast<char* const*>(arguments), environ);
    posix_spawn_file_actions_destroy(&files);
    if (failed != 0) {
        throw Error(std::string("it cannot be started (") + std::strerror(failed) + ")", program,
                    "build it, or check its permissions");
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) throw Error("it was waited for by someone else", program, "run it by hand");
    }
    return status;
}

std::string text_of(const nlohmann::json& report, const char* name) {
    return report.contains(name) && report[name].is_string() ? report[name].get<std::string>() : "";
}

}  // namespace

std::string program_beside(const std::string& name) {
    const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
    if (!std::filesystem::exists(path)) {
        throw Error("it is not beside tile-run", path.string(), "build it with ./dev build");
    }
    return path.string();
}

Judgement judge_recording(const std::string& tile_diff, const std::string& recording) {
    const std::string file = recording + ".json";
    const int status = run_quietly(tile_diff, recording, file);
    std::ifstream stream(file);
    const nlohmann::json report = nlohmann::json::parse(stream, nullptr, false);
    stream.close();
    std::filesystem::remove(file);

    Judgement result;
    if (report.is_discarded() || !report.is_object() || !WIFEXITED(status)) {
        result.summary = WIFEXITED(status) ? "tile-diff left no report" : "tile-diff was killed";
        return result;
    }
    result.summary = text_of(report, "summary");
    if (result.summary.empty()) result.summary = text_of(report, "reason");
    for (const nlohmann::json& stage : report.value("stages", nlohmann::json::array())) {
        result.compared += stage.value("compared", std::int64_t(0));
    }
    const int code = WEXITSTATUS(status);
    const std::string verdict = text_of(report, "verdict");
    result.match = code == 0 && verdict == "match";
    result.judged = result.compared > 0 && (result.match || (code == 1 && verdict == "diverged"));
    if (report.contains("first_divergence") && report["first_divergence"].is_object()) {
        result.stage = text_of(report["first_divergence"], "stage");
    }
    return result;
}

}  // namespace tilescope
