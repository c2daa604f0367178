#include "kernels/gate/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "kernels/run/child_process.h"
#include "kernels/run/judge_process.h"

namespace tilescope {

namespace {

/// What is counted, and how a report calls it.
struct Counter {
    std::string_view metric;
    std::string_view words;
};

constexpr std::string_view duration = "gpu__time_duration.sum";
/// Cycles in which the tensor pipe works, not its instructions: one of wgmma keeps it busy for many cycles.
constexpr Counter counters[] = {
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "tensor pipe"},
    {"smsp__issue_active.avg.pct_of_peak_sustained_active", "issue slots"},
    {"sm__warps_active.avg.pct_of_peak_sustained_active", "warps (occupancy)"},
    {"lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2"},
    {"dram__throughput.avg.pct_of_peak_sustained_elapsed", "DRAM"},
};

/// Kernels of which the first launch is that of something else, and the function that is theirs.
struct LaterLaunch {
    std::string_view kernel;
    std::string_view function;
};
constexpr LaterLaunch later_launches[] = {{"fp8", "regex:fp8_kernel|fast_hopper_kernel"}};

/// The fields of a line of CSV, of which any may be quoted.
std::vector<std::string> fields_of(std::string_view line) {
    std::vector<std::string> fields(1);
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
            fields.back() += line[++i];
        } else if (c == '"') {
            quoted = !quoted;
        } else if (c == ',' && !quoted) {
            fields.emplace_back();
        } else if (c != '\r') {
            fields.back() += c;
        }
    }
    return fields;
}

/// Of "1,234.5"; nothing of "n/a".
std::optional<double> number_of(std::string text) {
    std::erase(text, ',');
    double value = 0;
    const auto [rest, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || rest != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string find_ncu() {
    const char* const path = std::getenv("PATH");
    const char* const cuda = std::getenv("CUDA_HOME");
    std::istringstream folders(std::string(path == nullptr ? "" : path) + ":" +
                               (cuda == nullptr ? "/usr/local/cuda" : cuda) + "/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
        const std::filesystem::path file = std::filesystem::path(folder) / "ncu";
        if (!folder.empty() && access(file.c_str(), X_OK) == 0) return file.string();
    }
    throw Error("it is not on PATH, nor where CUDA puts it", "ncu",
                "install Nsight Compute, or set CUDA_HOME");
}

std::string text_of(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// The last line that says something.
std::string last_line(const std::string& text) {
    std::istringstream lines(text);
    std::string last;
    for (std::string line; std::getline(lines, line);) {
        if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
    }
    return last.empty() ? "it says nothing" : one_line(last);
}

std::vector<std::string> ncu_command(const GatedCall& call, const std::string& function,
                                     const std::filesystem::path& folder) {
    std::vector<std::string_view> metrics = {duration};
    for (const Counter& counter : counters) metrics.push_back(counter.metric);
    std::vector<std::string> command = {find_ncu(),       "--csv",
                                        "--log-file",     (folder / "ncu.csv").string(),
                                        "--launch-count", "1",
                                        "--print-units",  "base",
                                        "--metrics",      fmt::format("{}", fmt::join(metrics, ","))};
    if (!function.empty()) command.insert(command.end(), {"--kernel-name", function});
    command.push_back(program_beside("tile-gate"));
    std::ranges::copy(measure_arguments(call), std::back_inserter(command));
    command.insert(command.end(), {"--warmup-ms", "0", "--samples", "20", "--most-seconds", "1", "-o",
                                   (folder / "timed_under_the_profiler.csv").string()});
    return command;
}

}  // namespace

std::vector<std::string> measure_arguments(const GatedCall& call) {
    std::vector<std::string> words = {"measure", "--kernel", call.kernel, "--shape", call.shape,
                                      "--mask",  call.mask,  "--dtype",   call.dtype};
    if (!call.config.empty()) words.insert(words.end(), {"--config", call.config});
    if (!call.heads_kv.empty()) words.insert(words.end(), {"--heads-kv", call.heads_kv});
    return words;
}

std::string describe(const GatedCall& call) {
    return fmt::format("{}{}{} {} {}{} {}", call.kernel, call.config.empty() ? "" : " ", call.config,
                       call.dtype, call.shape,
                       call.heads_kv.empty() ? "" : " with " + call.heads_kv + " KV heads", call.mask);
}

std::vector<LaunchCounters> read_ncu_page(std::string_view text) {
    std::vector<LaunchCounters> launches;
    std::map<std::string, std::size_t> columns;
    std::map<std::string, std::size_t> places;
    std::istringstream lines{std::string(text)};
    for (std::string line; std::getline(lines, line);) {
        const std::vector<std::string> fields = fields_of(line);
        if (fields.front() == "ID") {
            for (std::size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
            continue;
        }
        if (columns.empty() || fields.size() != columns.size()) continue;
        const auto field = [&](const char* name) {
            const auto column = columns.find(name);
            return column == columns.end() ? std::string() : fields[column->second];
        };
        const std::optional<double> value = number_of(field("Metric Value"));
        const auto [place, is_new] = places.try_emplace(field("ID"), launches.size());
        if (is_new) launches.push_back({field("Kernel Name"), {}, {}});
        if (!value) continue;
        LaunchCounters& launch = launches[place->second];
        launch.values[field("Metric Name")] = *value;
        launch.units[field("Metric Name")] = field("Metric Unit");
    }
    return launches;
}

Profile profile_call(const GatedCall& call, const std::string& function) {
    const auto* later = std::ranges::find(later_launches, call.kernel, &LaterLaunch::kernel);
    const bool is_later = function.empty() && later != std::end(later_launches);
    const ScratchFolder scratch("profile");
    Profile profile;
    profile.command = ncu_command(call, is_later ? std::string(later->function) : function, scratch.path());
    const int status =
        run_child(profile.command, ChildOutput::dropped, "install Nsight Compute, or check its permissions");
    const std::string said = text_of(scratch.path() / "ncu.csv");
    if (said.find("ERR_NVGPUCTRPERM") != std::string::npos) {
        throw Error("this user may not read the GPU's counters (ERR_NVGPUCTRPERM)", "ncu",
                    "run it as root or in a container with CAP_SYS_ADMIN, load the driver with "
                    "NVreg_RestrictProfilingToAdminUsers=0, or use another machine");
    }
    std::vector<LaunchCounters> launches = read_ncu_page(said);
    if (status != 0 || launches.empty() || launches.front().values.empty()) {
        throw Error(fmt::format("no launch was counted ({}): {}", status == 0 ? "exit 0" : "it failed",
                                last_line(said)),
                    "ncu",
                    fmt::format("run what it profiles by itself: tile-gate {} -o times.csv",
                                fmt::join(measure_arguments(call), " ")));
    }
    profile.counters = std::move(launches.front());
    return profile;
}

std::string to_text(const Profile& profile, const GatedCall& call) {
    std::string text = describe(call) + "\n" + profile.counters.function + "\n\n";
    const std::map<std::string, double>& values = profile.counters.values;
    for (const auto& [metric, words] : counters) {
        const auto value = values.find(std::string(metric));
        text +=
            fmt::format("{:<18} {:>8}  {}\n", words,
                        value == values.end() ? "not here" : fmt::format("{:.1f} %", value->second), metric);
    }
    const auto took = values.find(std::string(duration));
    // In base units, which are nanoseconds.
    if (took != values.end()) {
        text += fmt::format("{:<18} {:>8}  {}, with the clocks that ncu sets\n", "duration",
                            fmt::format("{:.1f} us", took->second / 1000), duration);
    }
    return text;
}

std::string to_json(const Profile& profile, const GatedCall& call) {
    nlohmann::ordered_json json;
    json["call"] = describe(call);
    json["function"] = profile.counters.function;
    json["counters"] = nlohmann::ordered_json::object();
    for (const auto& [metric, value] : profile.counters.values) {
        json["counters"][metric] = {{"value", value}, {"unit", profile.counters.units.at(metric)}};
    }
    json["command"] = profile.command;
    return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
