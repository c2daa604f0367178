#include "kernels/run/flight_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "dump/recording/host_flight_recorder.h"
#include "kernels/run/host_arrays.h"
#include "kernels/run/quantise_inputs.h"
#include "kernels/run/report_json.h"
#include "kernels/run/reports.h"

namespace tilescope {

RunInputs flight_inputs(const RunRequest& request, const FlightRequest& flight, int launch) {
    RunInputs inputs = make_inputs(request.problem, *request.input, request.seed + std::uint64_t(launch));
    if (flight.nan_launch != launch) return inputs;
    const Problem& problem = request.problem;
    const bool quantised = !inputs.originals.k.empty();
    const Dtype dtype = quantised ? Dtype::f16 : problem.dtype_k;
    const auto nan = std::uint16_t(encode(dtype, std::nan("")));
    const std::int64_t element = (problem.seqlen_kv - 1) * problem.head_dim;
    InputArrays& arrays = quantised ? inputs.originals : inputs;
    std::memcpy(arrays.k.data() + std::size_t(element) * sizeof nan, &nan, sizeof nan);
    return quantised ? quantise_inputs(problem, std::move(arrays)) : inputs;
}

FlightOptions flight_options(const RunRequest& request, const FlightRequest& flight) {
    FlightOptions options;
    options.launches = flight.kept;
    options.max_bytes = request.sink_bytes;
    options.selection = request.selection;
    options.limits = flight.limits;
    options.units = units_of(*request.kernel, request.config);
    options.threads = request.kernel->threads(request.config);
    // The shapes of descales; each launch has its own.
    if (request.kernel->quantises) options.side_inputs = flight_inputs(request, flight, 0).side;
    options.provenance = provenance_of(request);
    return options;
}

FlightResult record_flight(const RunRequest& request, const FlightRequest& flight) {
    return request.engine == Engine::cuda ? record_flight_on_cuda(request, flight)
                                          : record_flight_on_cpu(request, flight);
}

FlightResult record_flight_on_cpu(const RunRequest& request, const FlightRequest& flight) {
    FlightOptions options = flight_options(request, flight);
    options.provenance.device = cpu_name();
    HostFlightRecorder recorder(request.problem, std::move(options));
    for (int launch = 0; launch < flight.launches; ++launch) {
        const RunInputs inputs = flight_inputs(request, flight, launch);
        HostArrays arrays(request.problem, inputs, MemoryFill().output_byte);
        launch_on_cpu(request, arrays.args, MemoryFill(), recorder.next());
        recorder.inputs(inputs.q, inputs.k, inputs.v);
        recorder.check();
    }
    return {cpu_name(), flight.launches, recorder.frozen(), recorder.recordings()};
}

std::string to_text(const RunRequest& request, const FlightResult& result,
                    const std::vector<std::string>& paths) {
    std::string text = fmt::format("{} on {}: {} launches, the last {} kept\n", describe(request),
                                   result.device, result.launches, result.kept.size());
    if (!paths.empty()) text += fmt::format("next: tile-diff {}\n", paths.back());
    if (!result.freeze) return text + "not stopped: no launch has a NaN or exceeds a limit\n";
    return text + fmt::format("stopped by {}\n", to_string(request.problem, *result.freeze));
}

std::string to_json(const RunRequest& request, const FlightResult& result,
                    const std::vector<std::string>& paths) {
    nlohmann::ordered_json json = request_json(request, result.freeze ? "stopped" : "not_stopped");
    json["device"] = result.device;
    json["launches"] = result.launches;
    json["kept"] = result.kept.size();
    json["files"] = paths;
    json["freeze"] = nullptr;
    if (result.freeze) {
        const FlightFreeze& freeze = *result.freeze;
        json["freeze"] = {{"launch", freeze.launch},
                          {"stage", stage_info(request.problem, freeze.stage).name},
                          {"batch", freeze.tile.batch},
                          {"head", freeze.tile.head},
                          {"q_block", freeze.tile.q_block},
                          {"kv_tile", freeze.tile.kv_tile},
                          {"row_in_tile", freeze.row},
                          {"col_in_tile", freeze.col},
                          {"value", fmt::format("{}", freeze.value)}};
    }
    return lines_of(json);
}

}  // namespace tilescope
