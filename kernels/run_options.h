#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tilescope {

/// The command line of tile-run, as given: nothing is checked against kernels, faults or the machine yet.
struct RunOptions {
    bool list = false;
    bool json = false;
    std::string kernel;
    std::string config;
    std::string fault;
    std::vector<std::int64_t> shape;  ///< batch, heads, seqlen_q, seqlen_kv, head_dim
    std::optional<std::int64_t> heads_kv;
    bool causal = false;
    std::string causal_alignment = "bottom_right";
    std::string input = "random";
    std::uint64_t seed = 1;
    std::optional<std::string> select;
    std::uint64_t sink_bytes = std::uint64_t(4) << 30;
    std::string sink_memory = "device";
    std::string engine;
    std::string output;
    bool prove_inert = false;
};

/// Adds the options to `app`, which stores what it parses in `options`.
void declare_options(CLI::App& app, RunOptions& options);

/// The command line that asks for the same run on `engine`.
std::string command_line(const RunOptions& options, const std::string& engine);

}  // namespace tilescope
