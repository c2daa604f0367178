#include <algorithm>
#include <charconv>
#include <cmath>

#include "dump/error.h"
#include "kernels/flight_runs.h"
#include "kernels/run_options.h"

namespace tilescope {

namespace {

/// "acc=1000".
void parse_limit(const std::string& text, FlightLimits& limits) {
    const std::size_t equals = std::min(text.find('='), text.size());
    const std::optional<Stage> stage = stage_from_name(std::string_view(text).substr(0, equals));
    float limit = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + std::min(equals + 1, text.size()), end, limit);
    if (!stage || error != std::errc() || rest != end || !(limit >= 0 && std::isfinite(limit))) {
        throw Error("'" + text + "' is no limit", "--limit",
                    "write a stage and a number that is not negative, for example acc=1000");
    }
    limits[std::size_t(*stage)] = limit;
}

}  // namespace

FlightRequest make_flight_request(const RunOptions& options) {
    FlightRequest flight;
    flight.kept = options.flight_recorder;
    flight.launches = options.launches.value_or(default_flight_launches);
    flight.nan_launch = options.plant_nan;
    if (flight.nan_launch && *flight.nan_launch >= flight.launches) {
        throw Error("there is no launch " + std::to_string(*flight.nan_launch), "--plant-nan",
                    "launches are counted from 0, --launches says how many there are");
    }
    for (const std::string& limit : options.limits) parse_limit(limit, flight.limits);
    return flight;
}

}  // namespace tilescope
