#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/capture.h"
#include "dump/hook/sink.h"

namespace tilescope {

/// The run that a command line asks for, as given: nothing is checked against kernels, faults or the machine
/// yet.
struct RunOptions {
    std::string kernel;  ///< empty: the one that the build names
    std::string config;
    std::string dtype = "f16";
    std::string engine;  ///< empty: cuda where there is a GPU
    std::string fault;
    std::vector<std::int64_t> shape;  ///< batch, heads, seqlen_q, seqlen_kv, head_dim
    std::optional<std::int64_t> heads_kv;
    bool causal = false;
    std::string causal_alignment = "bottom_right";
    std::string input = "random";
    std::uint64_t seed = 1;
    std::optional<std::string> select;
    std::uint64_t sink_bytes = std::uint64_t(4) << 30;
    SinkMemory sink_memory = SinkMemory::device;
    std::string sink_file;
    SinkMode sink_mode = SinkMode::tiles;
    double time_limit = 0;  ///< seconds; 0: none
    std::string output;

    // What the command that is recorded says beside these.
    std::string subcommand = "record";
    std::vector<std::string> own_options;  ///< of the subcommand, with their values
};

/// Of SinkMemory, as --sink-memory has them.
std::string_view name_of(SinkMemory memory);

/// The command line that asks for the same run on `engine`.
std::string command_line(const RunOptions& options, const std::string& engine);

}  // namespace tilescope
