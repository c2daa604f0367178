#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>

#include "dump/schema/error.h"
#include "dump/writer.h"
#include "kernels/run/commands/command.h"
#include "kernels/run/commands/option_groups.h"
#include "kernels/run/flight_runs.h"
#include "kernels/run/number_range.h"

namespace tilescope {

namespace {

struct FlightCommandOptions {
    RunOptions run;
    bool json = false;
    int keep = 0;
    int launches = 100;
    std::optional<int> plant_nan;     ///< the launch whose k gets a NaN
    std::vector<std::string> limits;  ///< of magnitudes, as STAGE=NUMBER
    bool all_launches = false;        ///< write every launch that is kept
};

/// "acc=1000".
void parse_limit(const std::string& text, FlightLimits& limits) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::optional<Stage> stage = stage_from_name(std::string_view(text).substr(0, equals));
    float limit = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + std::min(equals + 1, text.size()), end, limit);
    if (!stage || error != std::errc() || rest != end || !(limit >= 0 && std::isfinite(limit))) {
        throw Error("'" + text + "' is no limit", "--limit",
                    "write a stage and a number that is not negative, for example acc=1000");
    }
    limits[std::size_t(*stage)] = limit;
}

FlightRequest flight_of(const FlightCommandOptions& options) {
    FlightRequest flight;
    flight.kept = options.keep;
    flight.launches = options.launches;
    flight.nan_launch = options.plant_nan;
    if (flight.nan_launch && *flight.nan_launch >= flight.launches) {
        throw Error("there is no launch " + std::to_string(*flight.nan_launch), "--plant-nan",
                    "launches are counted from 0, --launches says how many there are");
    }
    for (const std::string& limit : options.limits) parse_limit(limit, flight.limits);
    return flight;
}

std::vector<std::string> own_options_of(const FlightCommandOptions& options) {
    std::vector<std::string> words = {"--keep", fmt::format("{}", options.keep), "--launches",
                                      fmt::format("{}", options.launches)};
    if (options.plant_nan) words.insert(words.end(), {"--plant-nan", fmt::format("{}", *options.plant_nan)});
    for (const std::string& limit : options.limits) words.insert(words.end(), {"--limit", limit});
    if (options.all_launches) words.push_back("--all-launches");
    return words;
}

/// A recorder has one set of descales, and inputs of another seed have others.
void require_same_descales(const RunOptions& options) {
    const KernelInfo* kernel = find_kernel(options.kernel);
    if (kernel == nullptr || !kernel->quantises) return;
    throw Error(fmt::format("{} quantises the inputs of each launch with scales of their own", kernel->name),
                "flight", "use another kernel, or record single launches with tile-run record --seed");
}

int fly(const FlightCommandOptions& options) {
    if (options.all_launches && options.run.output.empty()) {
        throw Error("no output file is named", "--all-launches", "add -o");
    }
    require_same_descales(options.run);
    RunOptions run = options.run;
    run.own_options = own_options_of(options);
    const RunRequest request = make_request(run);
    const FlightResult result = record_flight(request, flight_of(options));
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < result.kept.size() && !run.output.empty(); ++i) {
        const bool last = i + 1 == result.kept.size();
        if (!options.all_launches && !last) continue;
        paths.push_back(options.all_launches ? fmt::format("{}.{}", run.output, i) : run.output);
        write_recording(paths.back(), result.kept[i]);
    }
    print_notice(request);
    say(stdout, "{}", options.json ? to_json(request, result, paths) : to_text(request, result, paths));
    return result.freeze ? exit_difference : exit_done;
}

void declare_recorder(CLI::App& app, FlightCommandOptions& options) {
    constexpr const char* group = "Flight recorder";
    app.add_option("--keep", options.keep, "launches to keep: the last ones")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000))
        ->required()
        ->group(group);
    app.add_option("--launches", options.launches, "how many there are")
        ->type_name("M")
        ->check(CLI::Range(1, 1000000000))
        ->capture_default_str()
        ->group(group);
    app.add_option("--plant-nan", options.plant_nan,
                   "the launch, counted from 0, whose k gets a NaN; none by default")
        ->type_name("LAUNCH")
        ->check(not_negative())
        ->group(group);
    app.add_option("--limit", options.limits,
                   "the largest magnitude that a stage may have, for example acc=1000; none by default")
        ->type_name("STAGE=NUMBER")
        ->group(group);
}

}  // namespace

Subcommand declare_flight(CLI::App& app) {
    const auto options = std::make_shared<FlightCommandOptions>();
    options->run.subcommand = "flight";
    app.description(
        "Launches a kernel many times, each time with other inputs, keeps the last launches, and stops\n"
        "recording at the first that writes a NaN or exceeds a --limit.\n"
        "Exit code: 0 not stopped, 1 stopped, 2 it could not be done.");
    declare_recorder(app, *options);
    declare_kernel(app, options->run);
    declare_fault(app, options->run);
    declare_call(app, options->run);
    declare_selection(app, options->run);
    declare_output(app, options->run,
                   "record the launch that stopped it, or the last one; nothing is recorded by default");
    app.add_flag("--all-launches", options->all_launches,
                 "record every launch that is kept, as FILE.0 (the oldest), FILE.1 and so on")
        ->group(output_group);
    declare_json(app, options->json);
    return {[options] { return fly(*options); }};
}

}  // namespace tilescope
