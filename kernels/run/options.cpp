#include "kernels/run/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dump/schema/shell_word.h"

namespace tilescope {

namespace {

std::string_view option_of(SinkMode mode) {
    switch (mode) {
        case SinkMode::checked:
            return " --count-conflicts";
        case SinkMode::writers:
            return " --writers";
        case SinkMode::tiles:
        case SinkMode::statistics:
            return "";
    }
    return "";
}

}  // namespace

std::string_view name_of(SinkMemory memory) {
    switch (memory) {
        case SinkMemory::device:
            return "device";
        case SinkMemory::mapped:
            return "mapped";
        case SinkMemory::file:
            return "file";
    }
    return "";
}

std::string command_line(const RunOptions& options, const std::string& engine) {
    std::string line = fmt::format("tile-run {} --kernel {} --config {}", options.subcommand, options.kernel,
                                   options.config);
    if (options.dtype != "f16") line += " --dtype " + options.dtype;
    if (!options.fault.empty()) line += " --fault " + options.fault;
    line += fmt::format(" --shape {}", fmt::join(options.shape, ","));
    if (options.heads_kv) line += fmt::format(" --heads-kv {}", *options.heads_kv);
    if (options.causal) line += " --causal --causal-alignment " + options.causal_alignment;
    line += fmt::format(" --input {} --seed {}", options.input, options.seed);
    if (options.select && !options.select->empty()) line += " --select " + shell_word(*options.select);
    line += fmt::format(" --sink-bytes {}", options.sink_bytes);
    if (options.sink_memory != SinkMemory::device)
        line += fmt::format(" --sink-memory {}", name_of(options.sink_memory));
    line += fmt::format("{} --engine {}", option_of(options.sink_mode), engine);
    for (const std::string& word : options.own_options) line += " " + shell_word(word);
    return options.output.empty() ? line : line + " -o " + shell_word(options.output);
}

}  // namespace tilescope
