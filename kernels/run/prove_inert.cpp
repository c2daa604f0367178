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
    const Sink sink = capture.sink();
    const Launch with = cuda.healthy(hooked.args, config, sink);
    check_cuda(cudaDeviceSynchronize(), "running the kernel with hooks");
    const Launch without = cuda.without_hooks(plain.args, config);
    check_cuda(cudaDeviceSynchronize(), "running the kernel without hooks");

    InertProof proof;
    compare("o", hooked.o, plain.o, proof);
    compare("lse", hooked.lse, plain.lse, proof);
    proof.hooked = figures_of(cuda.healthy_kernel(config), with);
    proof.plain = figures_of(cuda.kernel_without_hooks(config), without);
    const std::vector<double> times =
        median_times({{[&] { cuda.without_hooks(plain.args, config); }, stream_without_hooks},
                      {[&] { cuda.healthy(hooked.args, config, Sink()); }},
                      {[&] { cuda.healthy(hooked.args, config, sink); }}},
                     inert_launches);
    proof.plain_ms = times[0];
    proof.unarmed_ms = times[1];
    proof.capturing_ms = times[2];
    return proof;
}

}  // namespace tilescope
