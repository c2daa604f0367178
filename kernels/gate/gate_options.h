#pragma once

#include <string>
#include <vector>

#include "kernels/gate/latency_gate.h"
#include "kernels/gate/measure.h"
#include "kernels/gate/tune.h"

namespace tilescope {

/// The command line of tile-gate, as given.
struct GateOptions {
    std::string help;  ///< the text of --help when that was asked for
    std::string (*measure)(const MeasureOptions& options) = nullptr;  ///< null: tile-gate latency

    // tile-gate latency
    std::string candidate_file;
    std::string baseline_file;
    std::string candidate;  ///< implementations; empty: the only one of the file
    std::string baseline;
    std::vector<std::string> ignored;  ///< columns in which configurations may differ
    Requirements requirements;
    Resampling resampling;
    std::string json;  ///< "-" is stdout; empty: none

    MeasureOptions measuring;  ///< of tile-gate tile: how often it is measured
    std::string output;

    bool profiles = false;  ///< tile-gate profile, of the call below
    GatedCall call;
    std::string function;  ///< of the launch that is profiled; empty: the first

    bool tunes = false;  ///< tile-gate tune
    TuneOptions tuning;
};

/// `arguments` are those after the program's name.
/// Errors: Error for an option that is unknown, incomplete or malformed.
GateOptions parse_gate_options(std::vector<std::string> arguments);

}  // namespace tilescope
