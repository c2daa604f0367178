#include "kernels/gate/tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dump/schema/dtype.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "kernels/attention/registry.h"
#include "kernels/gate/latency_csv.h"
#include "kernels/run/child_process.h"
#include "kernels/run/judge_process.h"

namespace tilescope {

namespace {

constexpr std::size_t most_kept = 3;

/// The last number of "1,2,64,64,128"; 0 where it is none, which no kernel is built for.
int head_dim_of(const std::string& shape) {
    const std::string last = shape.substr(shape.find_last_of(',') + 1);
    int head_dim = 0;
    std::from_chars(last.data(), last.data() + last.size(), head_dim);
    return head_dim;
}

/// What the kernel is built with for the call. Errors: Error when that is nothing.
std::vector<std::string> configs_for(const GatedCall& call) {
    const KernelInfo* kernel = find_kernel(call.kernel);
    if (kernel == nullptr) {
        throw Error("there is no kernel " + call.kernel, "tune", "choose one that tile-run list shows");
    }
    std::vector<std::string> names;
    for (const KernelConfig& config : kernel->configs) {
        const bool fits =
            config.head_dim == head_dim_of(call.shape) && dtype_info(config.dtype).name == call.dtype;
        if (fits) names.push_back(config_name(config));
    }
    if (names.empty()) {
        throw Error(fmt::format("{} is not built for {} with the head_dim of {}", call.kernel, call.dtype,
                                call.shape),
                    "--shape", "choose a head_dim and --dtype that tile-run list shows");
    }
    return names;
}

void make_folder(const std::filesystem::path& folder) {
    std::error_code failed;
    std::filesystem::create_directories(folder, failed);
    if (failed || !std::filesystem::is_empty(folder, failed) || failed) {
        throw Error("it is not an empty folder", folder.string(), "name one that is empty or not there yet");
    }
}

/// Why a program that left `log` did not do it; empty when it did.
std::string why_not(int status, const std::filesystem::path& log) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    std::ifstream stream(log);
    std::string first;
    std::getline(stream, first);
    return one_line(first.empty() ? fmt::format("wait status {}, without a word", status) : first);
}

/// The programs beside this one, and a folder for what they leave.
struct Programs {
    std::string tile_run = program_beside("tile-run");
    std::string tile_diff = program_beside("tile-diff");
    std::string tile_gate = program_beside("tile-gate");
    ScratchFolder scratch{"tune"};
};

std::vector<std::string> record_command(const Programs& programs, const TuneOptions& options,
                                        const std::string& config, const std::string& file) {
    const GatedCall& call = options.call;
    std::vector<std::string> command = {programs.tile_run, "record",       "--kernel", call.kernel,
                                        "--config",        config,         "--engine", "cuda",
                                        "--shape",         call.shape,     "--dtype",  call.dtype,
                                        "--select",        options.select, "-o",       file};
    if (call.mask == "causal") command.emplace_back("--causal");
    if (!call.heads_kv.empty()) command.insert(command.end(), {"--heads-kv", call.heads_kv});
    return command;
}

/// Records and judges it; what is wrong is refused.
void judge(const Programs& programs, const TuneOptions& options, Trial& trial) {
    const std::filesystem::path& scratch = programs.scratch.path();
    const std::string file = (scratch / (trial.config + ".h5")).string();
    const std::filesystem::path log = scratch / "record.log";
    const std::string not_recorded = why_not(
        run_child(record_command(programs, options, trial.config, file), log, "build it with ./dev build"),
        log);
    if (!not_recorded.empty()) {
        trial.refused = "not recorded: " + not_recorded;
        return;
    }
    const Judgement judgement = judge_recording(programs.tile_diff, file);
    std::filesystem::remove(file);
    trial.judged = judgement.summary;
    if (!judgement.judged) trial.refused = "not judged: " + judgement.summary;
    if (judgement.judged && !judgement.match) trial.refused = judgement.summary;
}

/// Times it; its samples stay in the folder.
void time(const Programs& programs, const TuneOptions& options, Trial& trial) {
    const std::filesystem::path file = std::filesystem::path(options.folder) / (trial.config + ".csv");
    const std::filesystem::path log = programs.scratch.path() / "measure.log";
    GatedCall call = options.call;
    call.config = trial.config;
    std::vector<std::string> command = {programs.tile_gate};
    std::ranges::copy(measure_arguments(call), std::back_inserter(command));
    command.insert(command.end(), {"--samples", std::to_string(options.samples), "--most-seconds",
                                   fmt::format("{}", options.most_seconds), "-o", file.string()});
    const std::string not_timed = why_not(run_child(command, log, "build it with ./dev build"), log);
    if (!not_timed.empty()) {
        trial.refused = "not timed: " + not_timed;
        return;
    }
    const LatencyFile latencies = read_latencies(file.string(), "");
    trial.samples = latencies.configurations.front().latencies.size();
    trial.microseconds = percentiles_of(latencies.configurations.front().latencies);
    trial.file = file.filename().string();
}

/// The fastest come first; of the others samples are not kept.
void rank(const TuneOptions& options, Tuning& tuning) {
    std::ranges::stable_sort(tuning.trials, [](const Trial& a, const Trial& b) {
        if (!a.microseconds || !b.microseconds) return a.microseconds.has_value() && !b.microseconds;
        return a.microseconds->p50 < b.microseconds->p50;
    });
    for (Trial& trial : tuning.trials) {
        if (!trial.microseconds) continue;
        if (tuning.kept.size() < most_kept) {
            tuning.kept.push_back(trial.config);
        } else {
            std::filesystem::remove(std::filesystem::path(options.folder) / trial.file);
            trial.file.clear();
        }
    }
}

std::string profile_of_fastest(const Tuning& tuning) {
    GatedCall call = tuning.call;
    call.config = tuning.kept.front();
    try {
        return to_text(profile_call(call), call);
    } catch (const Error& error) {
        return std::string("no counters: ") + error.what() + "\n";
    }
}

}  // namespace

Tuning tune_kernel(const TuneOptions& options) {
    Tuning tuning;
    tuning.call = options.call;
    tuning.call.config.clear();
    const std::vector<std::string> configs = configs_for(options.call);
    const Programs programs;
    make_folder(options.folder);
    for (const std::string& config : configs) {
        Trial trial;
        trial.config = config;
        std::vector<std::string> again = record_command(programs, options, config, "run.h5");
        again.front() = "tile-run";
        trial.record = fmt::format("{}", fmt::join(again, " "));
        judge(programs, options, trial);
        if (trial.refused.empty()) time(programs, options, trial);
        tuning.trials.push_back(std::move(trial));
    }
    const bool any_judged = std::ranges::any_of(tuning.trials, [](const Trial& trial) {
        return !trial.judged.empty() && !trial.refused.starts_with("not ");
    });
    if (!any_judged) {
        const Trial& first = tuning.trials.front();
        throw Error(fmt::format("none of {} configurations could be judged and timed; first {}: {}",
                                configs.size(), first.config, first.refused),
                    "tune", "run it on a machine with an NVIDIA GPU, or run by hand: " + first.record);
    }
    rank(options, tuning);
    if (!tuning.kept.empty()) tuning.profile = profile_of_fastest(tuning);
    return tuning;
}

std::string to_text(const Tuning& tuning) {
    std::string text = fmt::format("{}\n\n{:<18} {:>9} {:>9} {:>9}  {}\n", describe(tuning.call),
                                   "configuration", "p50 us", "p90 us", "p99 us", "judged");
    for (const Trial& trial : tuning.trials) {
        if (trial.microseconds) {
            text += fmt::format("{:<18} {:>9.5g} {:>9.5g} {:>9.5g}  {}{}\n", trial.config,
                                trial.microseconds->p50, trial.microseconds->p90, trial.microseconds->p99,
                                trial.judged, trial.file.empty() ? "" : "; kept: " + trial.file);
        } else {
            text += fmt::format("{:<18} {:>9} {:>9} {:>9}  REFUSED: {}\n", trial.config, "", "", "",
                                trial.refused);
        }
    }
    if (!tuning.profile.empty()) text += "\n" + tuning.profile;
    const std::size_t timed = std::size_t(std::ranges::count_if(
        tuning.trials, [](const Trial& trial) { return trial.microseconds.has_value(); }));
    return text + fmt::format("\n{} of {} configurations are right and timed; the fastest: {}\n", timed,
                              tuning.trials.size(), tuning.kept.empty() ? "none" : tuning.kept.front());
}

std::string to_json(const Tuning& tuning) {
    using Json = nlohmann::ordered_json;
    Json json = {{"call", describe(tuning.call)},
                 {"kept", tuning.kept},
                 {"profile", tuning.profile},
                 {"trials", Json::array()}};
    for (const Trial& trial : tuning.trials) {
        Json one = {{"config", trial.config},   {"judged", trial.judged}, {"refused", trial.refused},
                    {"samples", trial.samples}, {"p50_us", nullptr},      {"p90_us", nullptr},
                    {"p99_us", nullptr},        {"file", trial.file},     {"record", trial.record}};
        if (trial.microseconds) {
            one["p50_us"] = trial.microseconds->p50;
            one["p90_us"] = trial.microseconds->p90;
            one["p99_us"] = trial.microseconds->p99;
        }
        json["trials"].push_back(one);
    }
    return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace tilescope
