#include <cuda_runtime.h>

#include "dump/flight_recorder.h"
#include "kernels/run/device_arrays.cuh"
#include "kernels/run/flight_runs.h"

namespace tilescope {

FlightResult record_flight_on_cuda(const RunRequest& request, const FlightRequest& flight) {
    FlightOptions options = flight_options(request, flight);
    int device = 0;
    cudaDeviceProp properties = {};
    check_cuda(cudaGetDevice(&device), "looking for a GPU");
    check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the GPU's properties");
    options.provenance.device = properties.name;
    options.provenance.compute_capability =
        std::to_string(properties.major) + "." + std::to_string(properties.minor);
    FlightRecorder recorder(request.problem, std::move(options));
    for (int launch = 0; launch < flight.launches; ++launch) {
        const DeviceArrays arrays(request, flight_inputs(request, flight, launch), MemoryFill().output_byte);
        launch_hooked(request, arrays.args, recorder.next());
        recorder.inputs(arrays.q.data(), arrays.k.data(), arrays.v.data());
        recorder.descales(arrays.args.descale_q, arrays.args.descale_k, arrays.args.descale_v);
        recorder.check();
    }
    check_cuda(cudaDeviceSynchronize(), "running the kernel");
    return {properties.name, flight.launches, recorder.frozen(), recorder.recordings()};
}

}  // namespace tilescope
