#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "dump/cli/program.h"
#include "dump/file/identity.h"
#include "dump/schema/error.h"
#include "dump/schema/text.h"
#include "kernels/gate/gate_options.h"
#include "kernels/gate/latency_reports.h"
#include "kernels/gate/sampling.h"

namespace tilescope {
namespace {

enum ExitCode { exit_met = 0, exit_not_met = 1, exit_failed = 2 };

void write_text(const std::string& path, const std::string& text) {
    if (path == "-") {
        fmt::print("{}", readable(text));
        return;
    }
    std::ofstream stream(path, std::ios::binary);
    stream << text;
    stream.close();
    if (!stream) throw Error("it cannot be written", path, "choose a file in a folder that exists");
}

LatencyFile read(const GateOptions& options, const std::string& path, const std::string& implementation) {
    LatencyFile file = read_latencies(path, implementation);
    for (const std::string& column : options.ignored) ignore_column(file, column);
    return file;
}

int compare(const GateOptions& options) {
    LatencyFile candidate = read(options, options.candidate_file, options.candidate);
    LatencyFile baseline = read(options, options.baseline_file, options.baseline);
    const LatencyReport report = compare_latencies(std::move(candidate), std::move(baseline),
                                                   options.requirements, options.resampling);
    if (!options.json.empty()) write_text(options.json, to_json(report));
    if (options.json != "-") fmt::print("{}", readable(to_text(report)));
    return first_unmet(report) == nullptr ? exit_met : exit_not_met;
}

int judge_latencies(const GateOptions& options) {
    if (options.json != "-")
        spare_inputs(std::vector{options.candidate_file, options.baseline_file}, std::vector{options.json});
    try {
        return compare(options);
    } catch (const Error& error) {
        // Who reads the JSON learns why there is no verdict, too.
        if (!options.json.empty()) {
            const nlohmann::ordered_json json = {{"verdict", "unjudged"}, {"reason", error.what()}};
            write_text(options.json,
                       json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n");
        }
        throw;
    }
}

/// What the file sums up of its samples.
void print_percentiles(const std::string& csv) {
    std::istringstream lines(csv);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(percentiles_line)) fmt::print("{}\n", one_line(line.substr(2)));
    }
}

int measure(const GateOptions& options) {
    const std::string csv = options.measure(options.measuring);
    write_text(options.output, csv);
    if (options.output != "-") print_percentiles(csv);
    if (options.output != "-")
        fmt::print("next: tile-gate latency {} BASELINE.csv\n", one_line(options.output));
    return exit_met;
}

int profile(const GateOptions& options) {
    const Profile counted = profile_call(options.call, options.function);
    if (!options.json.empty()) write_text(options.json, to_json(counted, options.call));
    if (options.json != "-") fmt::print("{}", readable(to_text(counted, options.call)));
    return exit_met;
}

int tune(const GateOptions& options) {
    const Tuning tuning = tune_kernel(options.tuning);
    write_text((std::filesystem::path(options.tuning.folder) / "tune.json").string(), to_json(tuning));
    fmt::print("{}", readable(to_text(tuning)));
    return tuning.kept.empty() ? exit_not_met : exit_met;
}

int run(const GateOptions& options) {
    if (!options.help.empty()) {
        fmt::print("{}", options.help);
        return exit_met;
    }
    if (options.profiles) return profile(options);
    if (options.tunes) return tune(options);
    return options.measure != nullptr ? measure(options) : judge_latencies(options);
}

int run(std::vector<std::string> arguments) {
    try {
        return run(parse_gate_options(std::move(arguments)));
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "tile-gate: not enough memory; use fewer samples or a smaller shape\n");
    } catch (const std::exception& error) {
        fmt::print(stderr, "tile-gate: {}\n", one_line(error.what()));
    }
    return exit_failed;
}

}  // namespace
}  // namespace tilescope

int main(int argc, char** argv) {
    return tilescope::run_program([&] { return tilescope::run({argv + 1, argv + argc}); });
}
