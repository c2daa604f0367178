#include "kernels/run/judge_process.h"

#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dump/schema/error.h"
#include "kernels/run/child_process.h"

namespace tilescope {

namespace {

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
    const int status = run_child({tile_diff, recording, "--json", file}, ChildOutput::dropped,
                                 "build it, or check its permissions");
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
