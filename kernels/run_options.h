#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tilescope {

/// The command line of tile-run, as given: nothing is checked against kernels, faults or the machine yet.
struct RunOptions {
    std::string help;  ///< the text of --help when that was asked for
    bool list = false;
    bool json = false;
    std::string kernel;
    std::string config;
    std::string dtype = "f16";
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
    std::string sink_file;
    bool count_conflicts = false;
    bool writers = false;
    double time_limit = 0;  ///< seconds; 0: none
    std::string engine;
    std::string output;
    std::string recover;  ///< the sink file to make a recording of; empty: a kernel is run
    bool prove_inert = false;
    bool poison = false;
    int repeat = 0;  ///< runs to compare; 0: --repeat was not given
    bool sweep = false;
    std::string csv;         ///< of --sweep; empty: none is written
    int jobs = 0;            ///< judges of --sweep at a time; 0: one for two cores
    double time_budget = 0;  ///< seconds after which --sweep begins no case; 0: none
    bool watch = false;
    std::optional<std::uint64_t> budget;  ///< bytes of the dump of --watch
    int flight_recorder = 0;              ///< launches to keep; 0: --flight-recorder was not given
    std::optional<int> launches;          ///< of the flight
    std::optional<int> plant_nan;         ///< the launch whose k gets a NaN
    std::vector<std::string> limits;      ///< of magnitudes, as STAGE=NUMBER
    bool all_launches = false;            ///< write every launch that is kept
};

inline constexpr int default_flight_launches = 100;
inline constexpr std::uint64_t default_watch_budget = std::uint64_t(512) << 20;

/// `arguments` are those after the program's name.
/// Errors: Error for an option that is unknown, incomplete or malformed.
RunOptions parse_options(std::vector<std::string> arguments);

/// The command line that asks for the same run on `engine`.
std::string command_line(const RunOptions& options, const std::string& engine);

}  // namespace tilescope
