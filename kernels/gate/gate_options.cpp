#include "kernels/gate/gate_options.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "dump/cli/command_line.h"
#include "kernels/run/kernel_list.h"
#include "kernels/run/number_range.h"

namespace tilescope {

namespace {

void declare_latency(CLI::App& app, GateOptions& options) {
    CLI::App* latency = app.add_subcommand("latency", "compare the latencies of two CSV files");
    latency->description(
        "Compares latencies, one row a configuration: medians, the ratio candidate / baseline and Hedges' g\n"
        "(positive: the candidate is faster). kernels/GATES.md describes the files and the formulas.\n"
        "Exit code: 0 all requirements are met, or there are none, 1 they are not met, 2 it cannot be "
        "judged.");
    latency->add_option("candidate.csv", options.candidate_file, "latencies of what is judged")->required();
    latency->add_option("baseline.csv", options.baseline_file, "latencies of what it is compared with")
        ->required();
    latency->add_option("--candidate", options.candidate, "an implementation, when the file has several")
        ->type_name("NAME");
    latency->add_option("--baseline", options.baseline, "the same of the baseline")->type_name("NAME");
    latency
        ->add_option("--ignore", options.ignored,
                     "compare configurations that differ in this column, for example dtype")
        ->type_name("COLUMN")
        ->allow_extra_args(false);
    latency
        ->add_option("--require-ratio", options.requirements.ratio,
                     "the upper end of the ratio's interval is at most this, for example 1.05")
        ->type_name("R");
    latency
        ->add_option("--require-effect", options.requirements.effect,
                     "Hedges' g is at least this, for example 0.8")
        ->type_name("G");
    latency->add_flag("--require-non-overlap", options.requirements.non_overlap,
                      "the interval of the candidate's median ends below that of the baseline's");
    latency
        ->add_option_function<std::string>(
            "--require-at-most",
            [&options](const std::string& text) {
                options.requirements.at_most = parse_latency(text, "--require-at-most");
            },
            "the interval of the candidate's median ends here at most, for example 255us")
        ->type_name("LATENCY");
    latency->add_option("--resamples", options.resampling.resamples, "resamples of the bootstrap")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    latency->add_option("--confidence", options.resampling.confidence, "of each interval")
        ->capture_default_str();
    latency->add_option("--seed", options.resampling.seed, "of the resamples")
        ->check(not_negative())
        ->capture_default_str();
    latency->add_option("--json", options.json, "write the report as JSON; - is stdout")->type_name("FILE");
}

void declare_sampling(CLI::App* measure, GateOptions& options) {
    Sampling& sampling = options.measuring;
    measure->add_option("--samples", sampling.samples, "samples of each configuration")
        ->check(CLI::Range(least_measured, 100000))
        ->capture_default_str();
    measure
        ->add_option("--warmup-ms", sampling.warmup_ms,
                     "time that each configuration runs before it is timed")
        ->check(number_range(0.0, 60000.0))
        ->capture_default_str();
    measure
        ->add_option("--most-seconds", sampling.most_seconds, "of a configuration, but 20 samples are taken")
        ->check(number_range(0.0, 36000.0))
        ->capture_default_str();
    measure->add_option("--seed", sampling.seed, "of the inputs")
        ->check(not_negative())
        ->capture_default_str();
    measure->add_option("-o,--output", options.output, "the CSV file to write")
        ->type_name("FILE")
        ->required();
}

CLI::App* declare_measure(CLI::App& app, GateOptions& options) {
    MeasureOptions& measuring = options.measuring;
    CLI::App* measure = app.add_subcommand("measure", "time a bundled kernel without hooks on the GPU");
    measure->description(
        "Times a bundled kernel without hooks on the GPU and writes a CSV file for tile-gate latency.\n"
        "Exit code: 0 measured, 2 it could not be done.");
    measure->add_option("--kernel", measuring.kernel, "the kernel, see tile-run list")
        ->type_name("NAME")
        ->required();
    measure->add_option("--config", measuring.config, "block_m x block_n x stages, for example 32x64x2")
        ->type_name("MxNxS");
    measure->add_option("--shape", measuring.shapes, "a shape to measure; may be given several times")
        ->type_name("B,H,Sq,Skv,D")
        ->required()
        ->allow_extra_args(false);
    measure->add_option("--dtype", measuring.dtype, "of q, k and v")
        ->check(CLI::IsMember({"f16", "bf16"}))
        ->capture_default_str();
    measure->add_option("--heads-kv", measuring.heads_kv, "KV heads, when fewer than query heads")
        ->type_name("N");
    measure->add_option("--mask", measuring.masks, "none or causal; both when given twice")
        ->check(CLI::IsMember({"none", "causal"}))
        ->default_str("none")
        ->allow_extra_args(false);
    declare_sampling(measure, options);
    return measure;
}

void declare_call(CLI::App* app, GatedCall& call) {
    app->add_option("kernel", call.kernel, "the kernel, see tile-run list")->required();
    app->add_option("--shape", call.shape, "what is computed")
        ->type_name("B,H,Sq,Skv,D")
        ->capture_default_str();
    app->add_option("--heads-kv", call.heads_kv, "KV heads, when fewer than query heads")->type_name("N");
    app->add_option("--mask", call.mask, "none or causal")
        ->check(CLI::IsMember({"none", "causal"}))
        ->capture_default_str();
    app->add_option("--dtype", call.dtype, "of q, k and v")
        ->check(CLI::IsMember({"f16", "bf16"}))
        ->capture_default_str();
}

CLI::App* declare_profile(CLI::App& app, GateOptions& options) {
    CLI::App* profile = app.add_subcommand("profile", "count one launch of a bundled kernel by ncu");
    profile->description(
        "Has ncu count one launch of a bundled kernel without hooks: how busy the tensor pipe, the issue "
        "slots,\n"
        "L2 and DRAM are, and how many of its warps a multiprocessor has.\n"
        "Exit code: 0 counted, 2 it could not be done.");
    declare_call(profile, options.call);
    profile->add_option("--config", options.call.config, "block_m x block_n x stages, for example 32x64x2")
        ->type_name("MxNxS");
    profile->add_option("--function", options.function, "count the first launch of this function")
        ->type_name("NAME");
    profile->add_option("--json", options.json, "write the counters as JSON; - is stdout")->type_name("FILE");
    return profile;
}

CLI::App* declare_tune(CLI::App& app, GateOptions& options) {
    TuneOptions& tuning = options.tuning;
    CLI::App* tune = app.add_subcommand("tune", "judge and time every configuration of a bundled kernel");
    tune->description(
        "Records every configuration that a bundled kernel is built with, has tile-diff judge it, times what "
        "is\n"
        "right, and keeps the three fastest with their samples; ncu counts the fastest where it may.\n"
        "Exit code: 0 some configuration is right, 1 none is, 2 it could not be done.");
    declare_call(tune, tuning.call);
    tune->add_option("--select", tuning.select, "what of the call is recorded and judged")
        ->capture_default_str();
    tune->add_option("--samples", tuning.samples, "samples of each configuration")
        ->check(CLI::Range(least_measured, 100000))
        ->capture_default_str();
    tune->add_option("--most-seconds", tuning.most_seconds, "of a configuration, but 20 samples are taken")
        ->check(number_range(0.0, 36000.0))
        ->capture_default_str();
    tune->add_option("-o,--output", tuning.folder, "a folder that is empty or not there yet")
        ->type_name("DIR")
        ->required();
    return tune;
}

CLI::App* declare_tile(CLI::App& app, GateOptions& options) {
    CLI::App* tile = app.add_subcommand("tile", "time one tile of q k^T by cuBLAS, wmma and scalar code");
    tile->description(
        "Times one tile of q k^T on the GPU, by cuBLAS and by the code of wmma and scalar, and writes a CSV\n"
        "file for tile-gate latency.\n"
        "Exit code: 0 measured, 2 it could not be done.");
    declare_sampling(tile, options);
    return tile;
}

}  // namespace

GateOptions parse_gate_options(std::vector<std::string> arguments) {
    CLI::App app("Holds kernels to what is required of them.", "tile-gate");
    GateOptions options;
    app.require_subcommand(1);
    declare_latency(app, options);
    const CLI::App* measure = declare_measure(app, options);
    const CLI::App* tile = declare_tile(app, options);
    const CLI::App* profile = declare_profile(app, options);
    const CLI::App* tune = declare_tune(app, options);
    options.help = parse_command_line(app, std::move(arguments), listed_words());
    options.profiles = profile->parsed();
    options.tunes = tune->parsed();
    if (measure->parsed()) options.measure = measure_latencies;
    if (tile->parsed()) options.measure = [](const MeasureOptions& how) { return measure_tiles(how); };
    return options;
}

}  // namespace tilescope
