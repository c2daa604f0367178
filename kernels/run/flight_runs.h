#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dump/recording/flight.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

/// A long run under a flight recorder.
struct FlightRequest {
    int kept = 0;
    int launches = 0;
    std::optional<int> nan_launch;  ///< whose k gets a NaN, in its last row of the first head
    FlightLimits limits = no_flight_limits();
};

struct FlightResult {
    std::string device;
    int launches = 0;
    std::optional<FlightFreeze> freeze;
    std::vector<CapturedRun> kept;  ///< the oldest first
};

/// The inputs of one launch: those of the request's seed + launch, with the NaN where it is planted.
RunInputs flight_inputs(const RunRequest& request, const FlightRequest& flight, int launch);

FlightOptions flight_options(const RunRequest& request, const FlightRequest& flight);

/// All launches, one after the other; those after the recording stopped run on. Errors: as run_kernel(), and
/// those of the recorders.
FlightResult record_flight(const RunRequest& request, const FlightRequest& flight);
FlightResult record_flight_on_cpu(const RunRequest& request, const FlightRequest& flight);
FlightResult record_flight_on_cuda(const RunRequest& request, const FlightRequest& flight);

// What tile-run prints. `paths` are the files that were written.
std::string to_text(const RunRequest& request, const FlightResult& result,
                    const std::vector<std::string>& paths);
std::string to_json(const RunRequest& request, const FlightResult& result,
                    const std::vector<std::string>& paths);

}  // namespace tilescope
