#include <cuda_runtime.h>
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "dump/capture.h"
#include "kernels/attention/along_keys.h"
#include "kernels/run/device_arrays.cuh"
#include "kernels/run/quantise.h"
#include "kernels/run/quantise_inputs.h"
#include "kernels/run/watch_runs.h"

namespace tilescope {

namespace {

/// 10 * major + minor of the GPU that is used.
int compute_capability() {
    int device = 0;
    int major = 0;
    int minor = 0;
    check_cuda(cudaGetDevice(&device), "choosing the GPU");
    check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
               "asking for the compute capability");
    check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
               "asking for the compute capability");
    return 10 * major + minor;
}

/// Before 8.9 the kernel turns fp8 operands to float16, and on 9.0 the compiler does: mma.sync of e4m3
/// becomes two products of float16 and an addition there.
bool multiplies_fp8_as_half() {
    const int capability = compute_capability();
    return (capability >= 80 && capability < 89) || capability / 10 == 9;
}

/// What the kernel's stages contain on this GPU.
Units units_here(const RunRequest& request) {
    Units units = units_of(*request.kernel, request.config);
    if (!request.kernel->quantises || request.config.wgmma || !multiplies_fp8_as_half()) return units;
    for (Accumulation* sum : {&units.s_accumulation, &units.acc_accumulation}) {
        if (*sum == Accumulation::tensor_core_fp8) *sum = Accumulation::tensor_core_f32;
    }
    return units;
}

Capture::Options options_of(const RunRequest& request, const RunInputs& inputs) {
    Capture::Options options;
    options.selection = request.selection;
    options.max_bytes = request.sink_bytes;
    options.memory = request.sink_memory;
    options.sink_file = request.sink_file;
    options.mode = request.sink_mode;
    options.jitter = request.jitter;
    options.time_limit = request.time_limit;
    options.units = units_here(request);
    options.threads = request.kernel->threads(request.config);
    options.side_inputs = inputs.side;
    options.provenance = provenance_of(request);
    return options;
}

}  // namespace

std::string why_no_gpu() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) return cudaGetErrorString(status);
    return devices == 0 ? "no CUDA device" : "";
}

bool gpu_has_wgmma() {
    return why_no_gpu().empty() && compute_capability() == 90;
}

DeviceArray operand_on_device(const RunInputs& inputs, std::vector<std::byte> InputArrays::*operand) {
    const std::vector<std::byte>& content = inputs.*operand;
    if (inputs.originals.q.empty()) return DeviceArray(content);
    return DeviceArray(content.size(), std::byte(0xff));
}

DeviceArray products_on_device(const RunRequest& request, std::byte fill) {
    if (!request.kernel->stores_products) return DeviceArray(0, fill);
    const Problem& problem = request.problem;
    const double rows = double(problem.batch) * double(problem.heads) * double(problem.seqlen_q);
    const double bytes = rows * double(products_pitch(problem.seqlen_kv)) * sizeof(float);
    std::size_t free = 0;
    std::size_t total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    if (bytes > double(free)) {
        throw Error(fmt::format("its scores take {:.0f} MiB, and the GPU has {:.0f} MiB free", bytes / 0x1p20,
                                double(free) / 0x1p20),
                    fmt::format("--kernel {}", request.kernel->name),
                    "choose a smaller shape, or a kernel that stores no scores, such as wmma");
    }
    return DeviceArray(std::size_t(bytes), fill);
}

DeviceArray v_along_keys_on_device(const RunRequest& request) {
    const Problem& problem = request.problem;
    if (!takes_v_along_keys(*request.kernel, request.config)) return DeviceArray(0, std::byte(0xff));
    const std::int64_t features = problem.batch * problem.heads_kv * problem.head_dim_v;
    return DeviceArray(std::size_t(features * along_keys_pitch(problem.seqlen_kv)), std::byte(0xff));
}

void DeviceArrays::quantise(const RunRequest& request, const RunInputs& inputs) {
    const DeviceArray* const codes[] = {&q, &k, &v};
    const DeviceArray* const descales[] = {&descale_q, &descale_k, &descale_v};
    for (std::size_t i = 0; i < std::size(codes); ++i) {
        const QuantisedOperand& operand = quantised_operands()[i];
        const DeviceArray halves(inputs.originals.*operand.array);
        quantise_halves_on_device(halves.data(), operand.groups(request.problem), codes[i]->data(),
                                  static_cast<float*>(descales[i]->data()), request.fault);
    }
    if (takes_v_along_keys(*request.kernel, request.config)) {
        lay_along_keys_on_device(v.data(), quantised_operands()[2].groups(request.problem),
                                 v_along_keys.data());
        args.v = v_along_keys.data();
    }
    args.descale_q = static_cast<const float*>(descale_q.data());
    args.descale_k = static_cast<const float*>(descale_k.data());
    args.descale_v = static_cast<const float*>(descale_v.data());
}

Capture make_capture(const RunRequest& request, const RunInputs& inputs) {
    return Capture(request.problem, options_of(request, inputs));
}

Launch launch_hooked(const RunRequest& request, const AttentionArgs& args, const Sink& sink) {
    const CudaEntry& cuda = request.kernel->cuda;
    const CudaBuild& build = request.fault == Fault::none ? *cuda.hooked : *cuda.faulty;
    return build.launch(args, request.config, request.fault, sink);
}

StatisticsRun keep_statistics_on_cuda(const RunRequest& request, const RunInputs& inputs) {
    auto arrays = std::make_unique<DeviceArrays>(request, inputs, MemoryFill().output_byte);
    Capture::Options options = options_of(request, inputs);
    options.mode = SinkMode::statistics;
    Capture capture(request.problem, std::move(options));
    capture.inputs(inputs.q.data(), inputs.k.data(), inputs.v.data());
    const Launch launch = launch_hooked(request, arrays->args, capture.sink());
    StatisticsRun run = capture.finish_statistics();
    run.set_launch(to_string(launch));
    if (capture.still_running()) static_cast<void>(arrays.release());
    return run;
}

KernelRun run_on_cuda(const RunRequest& request, RunInputs inputs, const MemoryFill& fill, TilesLie tiles) {
    auto arrays = std::make_unique<DeviceArrays>(request, inputs, fill.output_byte);
    Capture capture = make_capture(request, inputs);
    // Those of the host: what a quantiser on the GPU makes of them is judged.
    capture.inputs(inputs.q.data(), inputs.k.data(), inputs.v.data());
    inputs = RunInputs();
    // Last, so that nothing else runs between it and the kernel.
    if (fill.shared_word) capture.poison(*fill.shared_word);
    const Launch launch = launch_hooked(request, arrays->args, capture.sink());
    capture.outputs(arrays->o.data(), static_cast<const float*>(arrays->lse.data()));
    CapturedRun run = tiles == TilesLie::in_place ? capture.finish_in_place() : capture.finish();
    run.set_launch(to_string(launch));
    // Freeing memory waits for a kernel that never ends.
    if (capture.still_running()) static_cast<void>(arrays.release());
    if (run.capture().ended != "completed") return {std::move(run), {}, {}};
    return {std::move(run), arrays->o.to_host(), arrays->lse.to_host()};
}

}  // namespace tilescope
