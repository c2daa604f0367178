#include <cuda_runtime.h>
#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <vector>

#include "dump/capture.h"
#include "dump/error.h"
#include "kernels/run_kernel.h"

namespace tilescope {

namespace {

void check(cudaError_t status, const char* doing) {
    if (status == cudaSuccess) return;
    throw Error(fmt::format("{} while {}", cudaGetErrorString(status), doing), "GPU",
                "use a smaller shape, or check the GPU with nvidia-smi");
}

/// Device memory between two stretches of NaN.
class DeviceArray {
 public:
    /// All NaN.
    explicit DeviceArray(std::size_t bytes) : bytes_(bytes) {
        void* memory = nullptr;
        check(cudaMalloc(&memory, guard_bytes + bytes + guard_bytes), "allocating an array");
        memory_.reset(static_cast<std::byte*>(memory));
        check(cudaMemset(memory, 0xff, guard_bytes + bytes + guard_bytes), "poisoning an array");
    }
    explicit DeviceArray(const std::vector<std::byte>& content) : DeviceArray(content.size()) {
        check(cudaMemcpy(data(), content.data(), bytes_, cudaMemcpyHostToDevice), "copying an input");
    }

    void* data() const { return memory_.get() + guard_bytes; }
    std::vector<std::byte> to_host() const {
        std::vector<std::byte> content(bytes_);
        check(cudaMemcpy(content.data(), data(), bytes_, cudaMemcpyDeviceToHost), "copying an output");
        return content;
    }

 private:
    struct Free {
        void operator()(std::byte* memory) const { cudaFree(memory); }
    };
    std::size_t bytes_;
    std::unique_ptr<std::byte, Free> memory_;
};

/// Inputs and outputs of one call on the GPU.
struct DeviceArrays {
    DeviceArrays(const RunRequest& request, const InputArrays& inputs)
        : q(inputs.q),
          k(inputs.k),
          v(inputs.v),
          o(output_bytes(request.problem, Stage::o, request.problem.dtype_o)),
          lse(output_bytes(request.problem, Stage::lse, Dtype::f32)) {
        args = sizes_of(request.problem);
        args.q = q.data();
        args.k = k.data();
        args.v = v.data();
        args.o = o.data();
        args.lse = static_cast<float*>(lse.data());
    }

    DeviceArray q, k, v, o, lse;
    AttentionArgs args;
};

Capture make_capture(const RunRequest& request) {
    Capture::Options options;
    options.selection = request.selection;
    options.max_bytes = request.sink_bytes;
    options.memory = request.mapped_sink ? SinkMemory::mapped : SinkMemory::device;
    options.units = request.kernel->units;
    options.provenance = provenance_of(request);
    return Capture(request.problem, std::move(options));
}

Launch launch_hooked(const RunRequest& request, const AttentionArgs& args, const Sink& sink) {
    const EngineEntry& cuda = request.kernel->cuda;
    return request.fault == Fault::none ? cuda.healthy(args, request.config, sink)
                                        : cuda.faulty(args, request.fault, sink);
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

std::string why_no_gpu() {
    int devices = 0;
    const cudaError_t status = cudaGetDeviceCount(&devices);
    if (status != cudaSuccess) return cudaGetErrorString(status);
    return devices == 0 ? "no CUDA device" : "";
}

CapturedRun run_on_cuda(const RunRequest& request) {
    require_memory(request);
    const DeviceArrays arrays(request, make_inputs(request.problem, *request.input, request.seed));
    Capture capture = make_capture(request);
    capture.inputs(arrays.q.data(), arrays.k.data(), arrays.v.data());
    const Launch launch = launch_hooked(request, arrays.args, capture.sink());
    capture.outputs(arrays.o.data(), static_cast<const float*>(arrays.lse.data()));
    CapturedRun run = capture.finish();
    run.set_launch(to_string(launch));
    return run;
}

InertProof prove_inert(const RunRequest& request) {
    if (request.engine != Engine::cuda) {
        throw Error("the hooks can be proved inert on a GPU only", "--prove-inert",
                    "use --engine cuda on a machine with a GPU");
    }
    if (request.fault != Fault::none) {
        throw Error("faults are built with hooks only", "--prove-inert", "leave out --fault");
    }
    require_memory(request);
    const InputArrays inputs = make_inputs(request.problem, *request.input, request.seed);
    const DeviceArrays hooked(request, inputs);
    const DeviceArrays plain(request, inputs);
    const Capture capture = make_capture(request);
    launch_hooked(request, hooked.args, capture.sink());
    check(cudaDeviceSynchronize(), "running the kernel with hooks");
    request.kernel->cuda.without_hooks(plain.args, request.config);
    check(cudaDeviceSynchronize(), "running the kernel without hooks");

    InertProof proof;
    compare("o", hooked.o, plain.o, proof);
    compare("lse", hooked.lse, plain.lse, proof);
    return proof;
}

}  // namespace tilescope
