#include <cuda_runtime.h>

#include <memory>
#include <utility>

#include "dump/capture.h"
#include "kernels/device_arrays.cuh"
#include "kernels/poison.h"
#include "kernels/watch_runs.h"

namespace tilescope {

std::string why_no_gpu() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) return cudaGetErrorString(status);
    return devices == 0 ? "no CUDA device" : "";
}

namespace {

Capture::Options options_of(const RunRequest& request) {
    Capture::Options options;
    options.selection = request.selection;
    options.max_bytes = request.sink_bytes;
    options.memory = !request.sink_file.empty() ? SinkMemory::file
                     : request.mapped_sink      ? SinkMemory::mapped
                                                : SinkMemory::device;
    options.sink_file = request.sink_file;
    options.count_conflicts = request.sink_mode == SinkMode::checked;
    options.record_writers = request.sink_mode == SinkMode::writers;
    options.time_limit = request.time_limit;
    options.units = units_of(*request.kernel, request.config);
    options.provenance = provenance_of(request);
    return options;
}

}  // namespace

Capture make_capture(const RunRequest& request) {
    return Capture(request.problem, options_of(request));
}

Launch launch_hooked(const RunRequest& request, const AttentionArgs& args, const Sink& sink) {
    const CudaEntry& cuda = request.kernel->cuda;
    return request.fault == Fault::none ? cuda.healthy(args, request.config, sink)
                                        : cuda.faulty(args, request.fault, sink);
}

StatisticsRun keep_statistics_on_cuda(const RunRequest& request, const InputArrays& inputs) {
    auto arrays = std::make_unique<DeviceArrays>(request, inputs, MemoryFill().output_byte);
    Capture::Options options = options_of(request);
    options.statistics = true;
    Capture capture(request.problem, std::move(options));
    capture.inputs(arrays->q.data(), arrays->k.data(), arrays->v.data());
    const Launch launch = launch_hooked(request, arrays->args, capture.sink());
    StatisticsRun run = capture.finish_statistics();
    run.set_launch(to_string(launch));
    if (capture.still_running()) static_cast<void>(arrays.release());
    return run;
}

KernelRun run_on_cuda(const RunRequest& request, InputArrays inputs, const MemoryFill& fill) {
    auto arrays = std::make_unique<DeviceArrays>(request, inputs, fill.output_byte);
    inputs = InputArrays();
    Capture capture = make_capture(request);
    capture.inputs(arrays->q.data(), arrays->k.data(), arrays->v.data());
    // Last, so that nothing else runs between it and the kernel.
    if (fill.shared_word) poison_shared_memory(*fill.shared_word);
    const Launch launch = launch_hooked(request, arrays->args, capture.sink());
    capture.outputs(arrays->o.data(), static_cast<const float*>(arrays->lse.data()));
    CapturedRun run = capture.finish();
    run.set_launch(to_string(launch));
    // Freeing memory waits for a kernel that never ends.
    if (capture.still_running()) static_cast<void>(arrays.release());
    if (run.capture().ended != "completed") return {std::move(run), {}, {}};
    return {std::move(run), arrays->o.to_host(), arrays->lse.to_host()};
}

}  // namespace tilescope
