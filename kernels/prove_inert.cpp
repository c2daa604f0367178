#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "dump/capture.h"
#include "dump/error.h"
#include "kernels/device_arrays.cuh"
#include "kernels/run_kernel.h"

namespace tilescope {

namespace {

struct DestroyEvent {
    void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

Event make_event() {
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreate(&event), "creating an event");
    return Event(event);
}

/// Milliseconds that the GPU spends on one call of `launch`.
template <class Function>
double time_of(const Function& launch) {
    constexpr int warm_up = 3;
    for (int i = 0; i < warm_up; ++i) launch();
    const Event begin = make_event();
    const Event end = make_event();
    std::array<float, inert_launches> times = {};
    for (float& time : times) {
        check_cuda(cudaEventRecord(begin.get()), "timing the kernel");
        launch();
        check_cuda(cudaEventRecord(end.get()), "timing the kernel");
        check_cuda(cudaEventSynchronize(end.get()), "timing the kernel");
        check_cuda(cudaEventElapsedTime(&time, begin.get(), end.get()), "timing the kernel");
    }
    std::ranges::nth_element(times, times.begin() + inert_launches / 2);
    return double(times[inert_launches / 2]);
}

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
        throw Error("the hooks can be proved inert on a GPU only", "--prove-inert",
                    "use --engine cuda on a machine with a GPU");
    }
    if (request.fault != Fault::none) {
        throw Error("faults are built with hooks only", "--prove-inert", "leave out --fault");
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
    proof.plain_ms = time_of([&] { cuda.without_hooks(plain.args, config); });
    proof.unarmed_ms = time_of([&] { cuda.healthy(hooked.args, config, Sink()); });
    proof.capturing_ms = time_of([&] { cuda.healthy(hooked.args, config, sink); });
    return proof;
}

}  // namespace tilescope
