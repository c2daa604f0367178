#include "kernels/run/bisect_program.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "dump/schema/error.h"
#include "kernels/run/child_process.h"
#include "kernels/run/judge_process.h"

namespace tilescope {

namespace {

using Json = nlohmann::json;

constexpr const char* tile_diff_advice = "build it, or check its permissions";

/// A cause that there is not would be found in no commit. Errors: Error.
void require_cause(const std::string& tile_diff, const std::string& cause) {
    const int status =
        run_child({tile_diff, "--without-cause", cause, "--version"}, ChildOutput::dropped, tile_diff_advice);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    throw Error(cause + " is no cause", "--cause", "take one of oracle/CAUSES.md");
}

/// "exit code 2"; empty: it ended as it should.
std::string failure_of(int status) {
    if (!WIFEXITED(status)) return fmt::format("signal {}", WTERMSIG(status));
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("exit code {}", WEXITSTATUS(status));
}

bool holds_recordings(const std::filesystem::path& folder) {
    const std::filesystem::recursive_directory_iterator all(folder);
    return std::ranges::any_of(begin(all), end(all),
                               [](const auto& entry) { return entry.path().extension() == ".h5"; });
}

/// tile-diff's report of all recordings in the folder. Errors: Error where there is none; tile-diff has said why.
Json report_of(const std::string& tile_diff, const std::filesystem::path& folder, const std::string& file,
               const BisectOptions& options) {
    std::vector<std::string> command = {tile_diff, folder.string(), "--quiet", "--json", file};
    if (!options.baseline.empty()) command.insert(command.end(), {"--baseline", options.baseline});
    // Looking for causes may take longer than all the rest.
    if (options.baseline.empty() && options.cause.empty() && options.stage.empty())
        command.push_back("--no-causes");
    const int status = run_child(command, ChildOutput::dropped, tile_diff_advice);
    std::ifstream stream(file);
    Json report = Json::parse(stream, nullptr, false);
    if (report.is_object() && report.contains("recordings")) return report;
    if (WIFEXITED(status) && PostponedSignals::caught() == 0)
        run_child(command, ChildOutput::shown, tile_diff_advice);
    throw Error("it left no report", "tile-diff", "mend what it says");
}

const Json* stage_in(const Json& recording, const std::string& name) {
    const Json& stages = recording.at("stages");
    const auto found =
        std::ranges::find_if(stages, [&](const Json& stage) { return stage.at("name") == name; });
    return found == stages.end() || found->at("compared") == 0 ? nullptr : &*found;
}

bool has_cause(const Json& recording, const std::string& name) {
    for (const auto& [list, member] : {std::pair("causes", "name"), std::pair("answers", "cause")})
        if (recording.contains(list) && recording[list].is_array())
            for (const Json& one : recording[list])
                if (one.at(member) == name) return true;
    return false;
}

/// Whether a mistake in a stage before it is why it holds what it does.
bool is_covered(const Json& recording, const std::string& stage) {
    for (const Json& answer : recording.value("answers", Json::array()))
        if (answer.at("stage") == stage)
            return answer.at("answer") == "covered" && answer.at("made_in") != stage &&
                   !answer.at("made_again").get<bool>();
    return false;
}

/// Whether it diverges as is looked for; nullopt: it cannot be told.
std::optional<bool> is_bad(const Json& recording, const BisectOptions& options) {
    if (recording.at("verdict") == "unjudged") return std::nullopt;
    const Json* const stage = options.stage.empty() ? nullptr : stage_in(recording, options.stage);
    if (!options.stage.empty() && stage == nullptr) return std::nullopt;
    if (recording.at("verdict") == "match" || recording.at("known").is_string()) return false;
    if (!options.cause.empty() && !has_cause(recording, options.cause)) return false;
    return stage == nullptr || recording.at("first_divergence").at("stage") == options.stage ||
           (stage->at("outside") > 0 && !is_covered(recording, options.stage));
}

std::string name_of(const Json& recording) {
    return std::filesystem::path(recording.at("recording").get<std::string>()).filename().string();
}

CommitVerdict verdict_on(const Json& report, const BisectOptions& options, const std::string& failure) {
    const Json& recordings = report.at("recordings");
    const auto count = [](std::size_t n) { return fmt::format("{} recording{}", n, n == 1 ? "" : "s"); };
    std::size_t untold = 0;
    for (const Json& recording : recordings) {
        const std::optional<bool> bad = is_bad(recording, options);
        if (!bad) ++untold;
        if (bad.value_or(false))
            return {CommitState::bad,
                    fmt::format("{}: {}", name_of(recording), recording.at("summary").get<std::string>())};
    }
    if (!failure.empty())
        return {CommitState::skipped,
                fmt::format("the command ended with {}, and nothing that it recorded before diverges so",
                            failure)};
    if (untold == 0) return {CommitState::good, count(recordings.size()) + " judged"};
    const std::string of_stage = options.stage.empty() ? "" : ", or nothing was compared of " + options.stage;
    return {CommitState::skipped, fmt::format("{} could not be judged{}", count(untold), of_stage)};
}

CommitVerdict judge_run(const std::string& tile_diff, const BisectOptions& options) {
    const ScratchFolder scratch("bisect");
    const std::filesystem::path recordings = scratch.path() / "recordings";
    std::filesystem::create_directories(recordings);
    if (setenv("TILESCOPE_DIR", recordings.c_str(), 1) != 0) throw std::bad_alloc();
    const int status =
        run_child(options.command, ChildOutput::shown, "give the command that builds and runs after --");
    if (PostponedSignals::caught() != 0) return {};
    const std::string failure = failure_of(status);
    if (!holds_recordings(recordings))
        return {CommitState::skipped,
                failure.empty() ? "the command left no recording in TILESCOPE_DIR"
                                : fmt::format("the command ended with {} and recorded nothing", failure)};
    const Json report = report_of(tile_diff, recordings, (scratch.path() / "report.json").string(), options);
    return verdict_on(report, options, failure);
}

}  // namespace

CommitVerdict judge_commit(const BisectOptions& options) {
    const std::string tile_diff = program_beside("tile-diff");
    if (!options.cause.empty()) require_cause(tile_diff, options.cause);
    const PostponedSignals signals;
    CommitVerdict verdict;
    try {
        verdict = judge_run(tile_diff, options);
    } catch (const Error&) {
        if (PostponedSignals::caught() == 0) throw;
    }
    verdict.interrupted_by = PostponedSignals::caught();
    return verdict;
}

}  // namespace tilescope
