#include <cuda_runtime.h>
#include <fmt/format.h>

#include <vector>

#include "dump/capture.h"
#include "dump/schema/error.h"
#include "kernels/run/device_arrays.cuh"
#include "kernels/run/launch_times.cuh"
#include "kernels/run/run_kernel.h"

namespace tilescope {

namespace {

KernelFigures figures_of(const void* kernel, const Launch& launch) {
    cudaFuncAttributes attributes = {};
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "asking for the kernel's attributes");
    return {attributes.numRegs, attributes.localSizeBytes, attributes.sharedSizeBytes,
            std::size_t(launch.shared_bytes), attributes.constSizeBytes};
}

void compare(const char* name, const DeviceArray& hooked, const DeviceArray& plain, InertProof& proof) {
    const std::vector<std::byte> with = hooked.to_host();
    const std::vector<std::byte> without = plain.to_host();
    proof.compared += std::int64_t(with.size());
    for (std::size_t i = 0; i < with.size(); ++i) {
        if (with[i] == without[i]) continue;
        if (proof.different++ == 0) proof.first_difference = fmt::format("{}, byte {}", name, i);
    }
}

}  // namespace

InertProof prove_inert(const RunRequest& request) {
    if (request.engine != Engine::cuda) {
        throw Error("the hooks can be proved inert on a GPU only", "prove-inert",
                    "use --engine cuda on a machine with a GPU");
    }
    if (request.fault != Fault::none) {
        throw Error("faults are built with hooks only", "prove-inert", "leave out the fault");
    }
    require_memory(request);
    const CudaEntry& cuda = request.kernel->cuda;
    const KernelConfig& config = request.config;
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    const DeviceArrays hooked(request, inputs, std::byte(0xff));
    const DeviceArrays plain(request, inputs, std::byte(0xff));
    const Capture capture = make_capture(request, inputs);
    const Sink armed = capture.sink();
    const auto launch_hooked = [&](const Sink& sink) {
        return cuda.hooked->launch(hooked.args, config, Fault::none, sink);
    };
    const auto launch_plain = [&] { return cuda.plain->launch(plain.args, config, Fault::none, Sink()); };
    const Launch with = launch_hooked(armed);
    check_cuda(cudaDeviceSynchronize(), "running the kernel with hooks");
    const Launch without = launch_plain();
    check_cuda(cudaDeviceSynchronize(), "running the kernel without hooks");

    InertProof proof;
    compare("o", hooked.o, plain.o, proof);
    compare("lse", hooked.lse, plain.lse, proof);
    proof.hooked = figures_of(cuda.hooked->function(config), with);
    proof.plain = figures_of(cuda.plain->function(config), without);
    const std::vector<double> times = median_times({{[&] { launch_plain(); }, stream_without_hooks},
                                                    {[&] { launch_hooked(Sink()); }},
                                                    {[&] { launch_hooked(armed); }}},
                                                   inert_launches);
    proof.plain_ms = times[0];
    proof.unarmed_ms = times[1];
    proof.capturing_ms = times[2];
    return proof;
}

}  // namespace tilescope
