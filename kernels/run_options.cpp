#include "kernels/run_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <string_view>

#include "dump/error.h"
#include "kernels/number_range.h"

namespace tilescope {

namespace {

/// `text` as a shell reads it back as one word.
std::string shell_word(const std::string& text) {
    const auto plain = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-+=:,./@").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::all_of(text, plain)) return text;
    std::string quoted = "'";
    for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + "'";
}

/// Where the tiles go before they are recorded.
void declare_sink(CLI::App& app, RunOptions& options) {
    app.add_option("--sink-bytes", options.sink_bytes, "room for tiles, for example 512M")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(1.0, 0x1p62))
        ->default_str("4G");
    app.add_option("--sink-memory", options.sink_memory,
                   "on the GPU: mapped memory survives a crashed kernel; a file survives a killed process")
        ->check(CLI::IsMember({"device", "mapped", "file"}))
        ->capture_default_str();
    app.add_option("--sink-file", options.sink_file,
                   "with --sink-memory file: on tmpfs, /dev/shm/tilescope-PID.sink by default; removed when "
                   "the recording is written")
        ->type_name("FILE");
    app.add_flag("--count-conflicts", options.count_conflicts,
                 "count writes that change an element already written; slower");
    app.add_flag("--writers", options.writers,
                 "the same, and record which thread wrote each element first, and how often it was written; "
                 "takes twice the room");
    app.add_option("--time-limit", options.time_limit,
                   "on the GPU: seconds after which what a kernel that hangs has written is recorded")
        ->type_name("SECONDS")
        ->check(number_range(0.001, 1e6));
}

/// Statistics, and runs of many launches.
void declare_watch(CLI::App& app, RunOptions& options) {
    app.add_flag(
        "--watch", options.watch,
        "keep statistics of each tile and look for what no healthy kernel has; with -o the query blocks "
        "that look wrong are recorded");
    app.add_option("--budget", options.budget, "with --watch: room for what is recorded, 512M by default")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(1.0, 0x1p62));
    app.add_option(
           "--flight-recorder", options.flight_recorder,
           "launch many times with other inputs, keep the last N launches, and stop at the first that "
           "writes a NaN or exceeds a --limit; with -o that one is recorded, or the last one")
        ->type_name("N")
        ->check(CLI::Range(1, 1000000));
    app.add_option("--launches", options.launches, "with --flight-recorder: how many, 100 by default")
        ->type_name("M")
        ->check(CLI::Range(1, 1000000000));
    app.add_option("--plant-nan", options.plant_nan,
                   "with --flight-recorder: the launch, counted from 0, whose k gets a NaN")
        ->type_name("LAUNCH")
        ->check(CLI::NonNegativeNumber);
    app.add_option(
           "--limit", options.limits,
           "with --flight-recorder: the largest magnitude that a stage may have, for example acc=1000")
        ->type_name("STAGE=NUMBER");
    app.add_flag(
        "--all-launches", options.all_launches,
        "with --flight-recorder: record every launch that is kept, as FILE.0 (the oldest), FILE.1 and "
        "so on");
}

void declare_sweep(CLI::App& app, RunOptions& options) {
    CLI::Option* sweep =
        app.add_flag("--sweep", options.sweep,
                     "run many shapes, masks, types, inputs and seeds and judge each with the tile-diff "
                     "beside this "
                     "program; of all kernels that run here, or of --kernel, --config, --fault, --shape")
            ->excludes("--list", "--output", "--causal", "--causal-alignment", "--input", "--select",
                       "--sink-memory", "--dtype", "--prove-inert", "--poison", "--repeat", "--watch",
                       "--budget", "--flight-recorder", "--launches", "--plant-nan", "--limit",
                       "--all-launches");
    app.add_option("--csv", options.csv, "with --sweep: a row for each case")
        ->type_name("FILE")
        ->needs(sweep);
    app.add_option("--jobs", options.jobs, "with --sweep: recordings judged at a time")
        ->type_name("N")
        ->check(CLI::Range(1, 1024))
        ->needs(sweep);
    app.add_option("--time-budget", options.time_budget, "with --sweep: begin no case after so many seconds")
        ->type_name("SECONDS")
        ->check(number_range(0.001, 1e6))
        ->needs(sweep);
}

void declare_options(CLI::App& app, RunOptions& options) {
    app.description(
        "Runs a bundled attention kernel, healthy or with a planted fault, and records its tiles.\n"
        "Exit code: 0 recorded (or nothing found by --prove-inert, --poison, --repeat, --watch,\n"
        "--flight-recorder and --sweep), 1 these found something, 2 it could not be done.");
    app.add_flag("--list", options.list, "list kernels, configurations, inputs and faults");
    app.add_flag(
        "--json", options.json,
        "with --list, --prove-inert, --poison, --repeat, --watch, --flight-recorder or --sweep: as JSON");
    app.add_option("--kernel", options.kernel, "the kernel, see --list; wmma or scalar by default")
        ->type_name("NAME");
    app.add_option("--config", options.config, "block_m x block_n x stages, for example 32x64x2")
        ->type_name("MxNxS");
    app.add_option("--dtype", options.dtype, "type of q, k, v and o, where the kernel is built for it")
        ->check(CLI::IsMember({"f16", "bf16"}))
        ->capture_default_str();
    app.add_option("--fault", options.fault, "a planted fault, see --list")->type_name("NAME");
    app.add_option("--shape", options.shape, "batch, heads, seqlen_q, seqlen_kv and head_dim")
        ->type_name("B,H,Sq,Skv,D")
        ->delimiter(',')
        ->expected(5);
    app.add_option("--heads-kv", options.heads_kv, "KV heads, when fewer than query heads")->type_name("N");
    app.add_flag("--causal", options.causal, "causal mask");
    app.add_option("--causal-alignment", options.causal_alignment, "where the diagonal ends")
        ->check(CLI::IsMember({"top_left", "bottom_right"}))
        ->capture_default_str();
    app.add_option("--input", options.input, "kind of input, see --list")
        ->type_name("NAME")
        ->capture_default_str();
    app.add_option("--seed", options.seed, "seed of the input")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
    app.add_option("--select", options.select,
                   "tiles to record, for example head=1:q_block=0-3:stage=s,p; every stage by default.\n"
                   "block=0/1/3 is one query block of a batch and a head;\n"
                   "stage=rescale: what l and acc are multiplied with at a KV tile, a named tile")
        ->type_name("TEXT");
    declare_sink(app, options);
    app.add_option("--engine", options.engine, "where to run; cuda where there is a GPU")
        ->check(CLI::IsMember({"cuda", "cpu"}));
    app.add_option("-o,--output", options.output, "the recording to write")->type_name("FILE");
    app.add_flag("--prove-inert", options.prove_inert,
                 "run with and without hooks on the GPU and compare the outputs bit by bit");
    app.add_flag("--poison", options.poison,
                 "run with other contents of shared memory and outputs and compare tiles and outputs bit by "
                 "bit; with -o the run after NaN is recorded");
    app.add_option("--repeat", options.repeat, "run N times and compare tiles and outputs bit by bit")
        ->type_name("N")
        ->check(CLI::Range(2, 1000000));
    declare_watch(app, options);
    declare_sweep(app, options);
    app.add_option("--recover", options.recover,
                   "write what a killed run left in its sink file to -o, and run nothing")
        ->type_name("FILE")
        ->excludes("--list", "--json", "--kernel", "--config", "--fault", "--shape", "--engine",
                   "--sink-memory", "--sink-file", "--prove-inert", "--poison", "--repeat", "--watch",
                   "--flight-recorder", "--sweep");
}

}  // namespace

RunOptions parse_options(std::vector<std::string> arguments) {
    CLI::App app("", "tile-run");
    RunOptions options;
    declare_options(app, options);
    std::ranges::reverse(arguments);
    try {
        app.parse(std::move(arguments));
    } catch (const CLI::CallForHelp&) {
        options.help = app.help();
    } catch (const CLI::ParseError& error) {
        throw Error(error.what(), "command line", "see tile-run --help");
    }
    return options;
}

std::string command_line(const RunOptions& options, const std::string& engine) {
    std::string line = fmt::format("tile-run --kernel {} --config {}", options.kernel, options.config);
    if (options.dtype != "f16") line += " --dtype " + options.dtype;
    if (!options.fault.empty()) line += " --fault " + options.fault;
    line += fmt::format(" --shape {}", fmt::join(options.shape, ","));
    if (options.heads_kv) line += fmt::format(" --heads-kv {}", *options.heads_kv);
    if (options.causal) line += " --causal --causal-alignment " + options.causal_alignment;
    line += fmt::format(" --input {} --seed {}", options.input, options.seed);
    if (options.select && !options.select->empty()) line += " --select " + shell_word(*options.select);
    line += fmt::format(" --sink-bytes {}", options.sink_bytes);
    if (engine == "cuda" || options.sink_memory == "file") line += " --sink-memory " + options.sink_memory;
    if (options.count_conflicts) line += " --count-conflicts";
    if (options.writers) line += " --writers";
    line += " --engine " + engine;
    if (options.prove_inert) line += " --prove-inert";
    if (options.poison) line += " --poison";
    if (options.repeat > 0) line += fmt::format(" --repeat {}", options.repeat);
    if (options.watch)
        line += fmt::format(" --watch --budget {}", options.budget.value_or(default_watch_budget));
    if (options.flight_recorder > 0) {
        line += fmt::format(" --flight-recorder {} --launches {}", options.flight_recorder,
                            options.launches.value_or(default_flight_launches));
        if (options.plant_nan) line += fmt::format(" --plant-nan {}", *options.plant_nan);
        for (const std::string& limit : options.limits) line += " --limit " + shell_word(limit);
        if (options.all_launches) line += " --all-launches";
    }
    return options.output.empty() ? line : line + " -o " + shell_word(options.output);
}

}  // namespace tilescope
