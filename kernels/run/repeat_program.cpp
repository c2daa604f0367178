#include "kernels/run/repeat_program.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>
#include <utility>

#include "dump/reader.h"
#include "dump/recording/array_shape.h"
#include "dump/schema/error.h"
#include "kernels/run/child_process.h"

namespace tilescope {

namespace {

constexpr const char* repeat_place = "tile-run repeat";

/// Its output is the caller's. Errors: Error where it cannot be started, or does not end with 0.
void run_once(const std::vector<std::string>& command, const std::filesystem::path& folder, int run) {
    const std::string jitter = fmt::format("{}", jitter_of_run(run));
    if (setenv("TILESCOPE_DIR", folder.c_str(), 1) != 0 || setenv("TILESCOPE_JITTER", jitter.c_str(), 1) != 0)
        throw std::bad_alloc();
    const int status = run_child(command, ChildOutput::shown, "give the program and its arguments after --");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    const std::string how = WIFEXITED(status) ? fmt::format("with exit code {}", WEXITSTATUS(status))
                                              : fmt::format("by signal {}", WTERMSIG(status));
    throw Error(fmt::format("run {} ended {}", run, how), command[0],
                "mend that first: tile-diff judges what such a run has recorded");
}

/// The recordings of a run, by the names of their files less the process.
std::map<std::string, std::string> recordings_in(const std::filesystem::path& folder) {
    static const std::regex process("\\.process[0-9]+");
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        if (entry.path().extension() == ".h5")
            found[std::regex_replace(entry.path().filename().string(), process, "")] = entry.path().string();
    return found;
}

/// Bit by bit; a NaN is what it is.
bool same_rows(const Recording& a, const Recording& b, Input input, std::int64_t batch, std::int64_t head) {
    const ArrayShape shape = input_shape(problem_of(a.problem(), a.side_inputs(), batch), input);
    std::vector<float> mine(std::size_t(shape.rows * shape.cols));
    std::vector<float> theirs(mine.size());
    a.read_input(input, batch, head, 0, shape.rows, mine);
    b.read_input(input, batch, head, 0, shape.rows, theirs);
    return mine.empty() || std::memcmp(mine.data(), theirs.data(), mine.size() * sizeof(float)) == 0;
}

/// Errors: Error naming an input of which the two hold other values.
void require_same_inputs(const Recording& first, const Recording& again, int run, const std::string& name) {
    for (int i = 0; i < input_count; ++i) {
        const Input input = Input(i);
        bool same = first.has_input(input) == again.has_input(input);
        const std::int64_t heads = first.has_input(input) ? input_shape(first.problem(), input).heads : 0;
        for (std::int64_t at = 0; same && at < first.problem().batch * heads; ++at)
            same = same_rows(first, again, input, at / heads, at % heads);
        if (!same)
            throw Error(
                fmt::format("run {} of {} has another {} than the first", run, name, input_name(input)),
                repeat_place,
                "let the program draw the same inputs each time; otherwise no race can be told");
    }
}

void require_same_names(const std::map<std::string, std::string>& first,
                        const std::map<std::string, std::string>& again, int run) {
    if (first.empty())
        throw Error("the program left no recording in TILESCOPE_DIR", repeat_place,
                    "save what it captures: Capture::save() and Recorder.save() go there");
    const auto name_of = [](const auto& entry) { return entry.first; };
    if (!std::ranges::equal(first, again, {}, name_of, name_of))
        throw Error(fmt::format("run {} left {} recordings and the first {}, or others", run, again.size(),
                                first.size()),
                    repeat_place, "let the program record the same launches each time");
}

}  // namespace

bool ProgramRepeat::is_repeatable() const {
    return std::ranges::all_of(recordings,
                               [](const RepeatedRecording& each) { return each.report.changed_runs == 0; });
}

ProgramRepeat repeat_program(const std::vector<std::string>& command, int runs) {
    const ScratchFolder scratch("repeat");
    const auto folder_of = [&](int run) { return scratch.path() / fmt::format("run{}", run); };
    ProgramRepeat repeat;
    for (const std::string& word : command) repeat.command += (repeat.command.empty() ? "" : " ") + word;
    repeat.runs = runs;
    std::filesystem::create_directories(folder_of(1));
    run_once(command, folder_of(1), 1);
    const auto first = recordings_in(folder_of(1));
    require_same_names(first, first, 1);
    std::vector<std::unique_ptr<Recording>> opened;
    for (const auto& [name, path] : first) {
        opened.push_back(open_recording(path));
        repeat.recordings.push_back(
            {name, opened.back()->problem(), {opened.back()->provenance().device, runs, 0, {}}});
    }
    for (int run = 2; run <= runs; ++run) {
        std::filesystem::create_directories(folder_of(run));
        run_once(command, folder_of(run), run);
        const auto again = recordings_in(folder_of(run));
        require_same_names(first, again, run);
        std::size_t i = 0;
        for (const auto& [name, path] : again) {
            const std::unique_ptr<Recording> other = open_recording(path);
            require_same_inputs(*opened[i], *other, run, name);
            add_run(compare_runs(*opened[i], *other), run, repeat.recordings[i].report);
            ++i;
        }
        std::filesystem::remove_all(folder_of(run));
    }
    return repeat;
}

}  // namespace tilescope
