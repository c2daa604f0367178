#pragma once

// The options that subcommands of tile-run share, declared once. What is declared writes to `options` when
// the command line is parsed.

#include <cstdint>
#include <span>
#include <string>

#include "kernels/run/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tilescope {

/// The headings of --help.
inline constexpr const char* kernel_group = "Kernel";
inline constexpr const char* call_group = "Attention call";
inline constexpr const char* tiles_group = "Tiles to capture";
inline constexpr const char* output_group = "Output";

/// What --sink-memory can be of a run that is not recorded.
inline constexpr SinkMemory memories_of_the_process[] = {SinkMemory::device, SinkMemory::mapped};

/// --kernel, --config, --dtype and --engine.
void declare_kernel(CLI::App& app, RunOptions& options);
void declare_fault(CLI::App& app, RunOptions& options);

/// --shape, --heads-kv, --causal, --causal-alignment, --input and --seed.
void declare_call(CLI::App& app, RunOptions& options);

/// --select and --sink-bytes.
void declare_selection(CLI::App& app, RunOptions& options);
/// --sink-memory, which is one of `memories`, --count-conflicts and --writers.
void declare_sink(CLI::App& app, RunOptions& options, std::span<const SinkMemory> memories);

CLI::Option* declare_output(CLI::App& app, RunOptions& options, const std::string& description);
void declare_json(CLI::App& app, bool& json);

// The single options of these groups that a subcommand may have without the others.
void declare_kernel_name(CLI::App& app, RunOptions& options);
void declare_config(CLI::App& app, RunOptions& options);
void declare_engine(CLI::App& app, RunOptions& options);
CLI::Option* declare_shape(CLI::App& app, RunOptions& options);
void declare_heads_kv(CLI::App& app, RunOptions& options);
void declare_seed(CLI::App& app, RunOptions& options);
void declare_sink_bytes(CLI::App& app, RunOptions& options);
void declare_sink_mode(CLI::App& app, RunOptions& options);
void declare_time_limit(CLI::App& app, RunOptions& options);
/// A number of bytes, such as 512M. `shown` is its default.
CLI::Option* declare_size(CLI::App& app, const std::string& name, std::uint64_t& bytes,
                          const std::string& description, const std::string& shown);

/// What a check that runs a kernel takes: of poison, repeat and watch.
void declare_checked_run(CLI::App& app, RunOptions& options);
/// All that tile-run record takes but for -o.
void declare_recorded_run(CLI::App& app, RunOptions& options);

}  // namespace tilescope
