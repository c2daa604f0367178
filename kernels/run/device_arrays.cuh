#pragma once

// The arrays of an attention call in device memory.

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/schema/error.h"
#include "kernels/run/run_kernel.h"

namespace tilescope {

inline void check_cuda(cudaError_t status, const char* doing) {
    if (status == cudaSuccess) return;
    throw Error(std::string(cudaGetErrorString(status)) + " while " + doing, "GPU",
                "use a smaller shape, or check the GPU with nvidia-smi");
}

/// Device memory between two stretches of NaN.
class DeviceArray {
 public:
    DeviceArray(std::size_t bytes, std::byte fill) : bytes_(bytes) {
        void* memory = nullptr;
        check_cuda(cudaMalloc(&memory, guard_bytes + bytes + guard_bytes), "allocating an array");
        memory_.reset(static_cast<std::byte*>(memory));
        check_cuda(cudaMemset(memory, 0xff, guard_bytes + bytes + guard_bytes), "poisoning an array");
        if (fill == std::byte(0xff)) return;
        check_cuda(cudaMemset(data(), std::to_integer<int>(fill), bytes), "filling an array");
    }
    explicit DeviceArray(const std::vector<std::byte>& content)
        : DeviceArray(content.size(), std::byte(0xff)) {
        check_cuda(cudaMemcpy(data(), content.data(), bytes_, cudaMemcpyHostToDevice), "copying an input");
    }

    void* data() const { return memory_.get() + guard_bytes; }
    std::vector<std::byte> to_host() const {
        std::vector<std::byte> content(bytes_);
        check_cuda(cudaMemcpy(content.data(), data(), bytes_, cudaMemcpyDeviceToHost), "copying an output");
        return content;
    }

 private:
    struct Free {
        void operator()(std::byte* memory) const { cudaFree(memory); }
    };
    std::size_t bytes_;
    std::unique_ptr<std::byte, Free> memory_;
};

/// An operand on the GPU: a copy, or NaN where it will be quantised there.
DeviceArray operand_on_device(const RunInputs& inputs, std::vector<std::byte> InputArrays::*operand);

/// Memory for the products that a kernel stores; none for others. Errors: Error when the GPU has not enough.
DeviceArray products_on_device(const RunRequest& request, std::byte fill);

/// Memory for V along the keys, for the kernels that take it so; none for others.
DeviceArray v_along_keys_on_device(const RunRequest& request);

/// Inputs and outputs of one call. fp8 operands are quantised on the GPU.
struct DeviceArrays {
    DeviceArrays(const RunRequest& request, const RunInputs& inputs, std::byte output_byte)
        : q(operand_on_device(inputs, &InputArrays::q)),
          k(operand_on_device(inputs, &InputArrays::k)),
          v(operand_on_device(inputs, &InputArrays::v)),
          descale_q(inputs.side.descale_q.values.size() * sizeof(float), std::byte(0xff)),
          descale_k(inputs.side.descale_k.values.size() * sizeof(float), std::byte(0xff)),
          descale_v(inputs.side.descale_v.values.size() * sizeof(float), std::byte(0xff)),
          o(output_bytes(request.problem, Stage::o, request.problem.dtype_o), output_byte),
          lse(output_bytes(request.problem, Stage::lse, Dtype::f32), output_byte),
          products(products_on_device(request, output_byte)),
          v_along_keys(v_along_keys_on_device(request)) {
        args = sizes_of(request.problem);
        args.products = products.data();
        args.q = q.data();
        args.k = k.data();
        args.v = v.data();
        args.o = o.data();
        args.lse = static_cast<float*>(lse.data());
        if (!inputs.originals.q.empty()) quantise(request, inputs);
    }

    DeviceArray q, k, v, descale_q, descale_k, descale_v, o, lse, products, v_along_keys;
    AttentionArgs args;

 private:
    void quantise(const RunRequest& request, const RunInputs& inputs);
};

/// A capture of what the request selects. Errors: Error when there is no memory for it.
Capture make_capture(const RunRequest& request, const RunInputs& inputs);

/// Launches the build with hooks, healthy or with the request's fault.
Launch launch_hooked(const RunRequest& request, const AttentionArgs& args, const Sink& sink);

}  // namespace tilescope
