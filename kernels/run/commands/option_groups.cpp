#include "kernels/run/commands/option_groups.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "kernels/run/number_range.h"

namespace tilescope {

namespace {

constexpr SinkMemory all_memories[] = {SinkMemory::device, SinkMemory::mapped, SinkMemory::file};

}  // namespace

// ---- the kernel

void declare_kernel_name(CLI::App& app, RunOptions& options) {
    app.add_option("--kernel", options.kernel, "the kernel, see tile-run list; wmma or scalar by default")
        ->type_name("NAME")
        ->group(kernel_group);
}

void declare_config(CLI::App& app, RunOptions& options) {
    app.add_option("--config", options.config,
                   "block_m x block_n x stages, for example 32x64x2; by default what suits the shape")
        ->type_name("MxNxS")
        ->group(kernel_group);
}

void declare_engine(CLI::App& app, RunOptions& options) {
    app.add_option("--engine", options.engine, "where to run; by default cuda where there is a GPU")
        ->check(CLI::IsMember({"cuda", "cpu"}))
        ->group(kernel_group);
}

void declare_kernel(CLI::App& app, RunOptions& options) {
    declare_kernel_name(app, options);
    declare_config(app, options);
    app.add_option("--dtype", options.dtype, "type of q, k, v and o, where the kernel is built for it")
        ->check(CLI::IsMember({"f16", "bf16"}))
        ->capture_default_str()
        ->group(kernel_group);
    declare_engine(app, options);
}

void declare_fault(CLI::App& app, RunOptions& options) {
    app.add_option("--fault", options.fault, "a planted fault, see tile-run list; none by default")
        ->type_name("NAME")
        ->group(kernel_group);
}

// ---- the attention call

CLI::Option* declare_shape(CLI::App& app, RunOptions& options) {
    return app.add_option("--shape", options.shape, "batch, heads, seqlen_q, seqlen_kv and head_dim")
        ->type_name("B,H,Sq,Skv,D")
        ->delimiter(',')
        ->expected(5)
        ->group(call_group);
}

void declare_heads_kv(CLI::App& app, RunOptions& options) {
    app.add_option("--heads-kv", options.heads_kv, "KV heads; by default as many as query heads")
        ->type_name("N")
        ->group(call_group);
}

void declare_seed(CLI::App& app, RunOptions& options) {
    app.add_option("--seed", options.seed, "seed of the input")
        ->check(not_negative())
        ->capture_default_str()
        ->group(call_group);
}

void declare_call(CLI::App& app, RunOptions& options) {
    declare_shape(app, options)->required();
    declare_heads_kv(app, options);
    app.add_flag("--causal", options.causal, "causal mask; none by default")->group(call_group);
    app.add_option("--causal-alignment", options.causal_alignment, "where the diagonal ends")
        ->check(CLI::IsMember({"top_left", "bottom_right"}))
        ->capture_default_str()
        ->group(call_group);
    app.add_option("--input", options.input, "kind of input, see tile-run list")
        ->type_name("NAME")
        ->capture_default_str()
        ->group(call_group);
    declare_seed(app, options);
}

// ---- what is captured

CLI::Option* declare_size(CLI::App& app, const std::string& name, std::uint64_t& bytes,
                          const std::string& description, const std::string& shown) {
    return app.add_option(name, bytes, description)
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false).description(""))
        ->check(number_range(1, 0x1p62))
        ->default_str(shown);
}

void declare_sink_bytes(CLI::App& app, RunOptions& options) {
    declare_size(app, "--sink-bytes", options.sink_bytes, "room for tiles, for example 512M", "4G")
        ->group(tiles_group);
}

void declare_selection(CLI::App& app, RunOptions& options) {
    app.add_option("--select", options.select,
                   "tiles to capture, for example head=1:q_block=0-3:stage=s,p; every stage by default.\n"
                   "block=0/1/3 is one query block of a batch and a head;\n"
                   "stage=rescale: what l and acc are multiplied with at a KV tile, a named tile")
        ->type_name("TEXT")
        ->group(tiles_group);
    declare_sink_bytes(app, options);
}

void declare_sink_mode(CLI::App& app, RunOptions& options) {
    app.add_flag_callback(
           "--count-conflicts", [&options] { options.sink_mode = SinkMode::checked; },
           "count writes that change an element already written; slower")
        ->group(tiles_group);
    // Declared last: where both are given, it does what the other does, too.
    app.add_flag_callback(
           "--writers", [&options] { options.sink_mode = SinkMode::writers; },
           "the same, and record which thread wrote each element first, and how often it was written; takes "
           "twice the room")
        ->group(tiles_group);
}

void declare_sink(CLI::App& app, RunOptions& options, std::span<const SinkMemory> memories) {
    std::vector<std::string> names;
    for (const SinkMemory memory : memories) names.emplace_back(name_of(memory));
    const auto choose = [&options, memories](const std::string& name) {
        options.sink_memory =
            *std::ranges::find(memories, name, [](SinkMemory memory) { return name_of(memory); });
    };
    const bool has_file = std::ranges::find(memories, SinkMemory::file) != memories.end();
    app.add_option_function<std::string>("--sink-memory", choose,
                                         std::string("on the GPU: mapped memory survives a crashed kernel") +
                                             (has_file ? "; a file survives a killed process" : ""))
        ->check(CLI::IsMember(names))
        ->default_str(std::string(name_of(options.sink_memory)))
        ->group(tiles_group);
    declare_sink_mode(app, options);
}

void declare_time_limit(CLI::App& app, RunOptions& options) {
    app.add_option(
           "--time-limit", options.time_limit,
           "on the GPU: seconds after which what a kernel that hangs has written is recorded; none by "
           "default")
        ->type_name("SECONDS")
        ->check(number_range(0.001, 1e6))
        ->group(tiles_group);
}

// ---- what is written

CLI::Option* declare_output(CLI::App& app, RunOptions& options, const std::string& description) {
    return app.add_option("-o,--output", options.output, description)->type_name("FILE")->group(output_group);
}

void declare_json(CLI::App& app, bool& json) {
    app.add_flag("--json", json, "print JSON in place of text")->group(output_group);
}

// ---- all of a run

void declare_checked_run(CLI::App& app, RunOptions& options) {
    declare_kernel(app, options);
    declare_fault(app, options);
    declare_call(app, options);
    declare_selection(app, options);
    declare_sink(app, options, memories_of_the_process);
    declare_time_limit(app, options);
}

void declare_recorded_run(CLI::App& app, RunOptions& options) {
    declare_kernel(app, options);
    declare_fault(app, options);
    declare_call(app, options);
    declare_selection(app, options);
    declare_sink(app, options, all_memories);
    app.add_option("--sink-file", options.sink_file,
                   "with --sink-memory file: on tmpfs, /dev/shm/tilescope-PID.sink by default; removed when "
                   "the recording is written")
        ->type_name("FILE")
        ->group(tiles_group);
    declare_time_limit(app, options);
}

}  // namespace tilescope
