#pragma once

// The arrays of an attention call on the CPU.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/run/run_kernel.h"

namespace tilescope {

/// A copy of an input, between two stretches of NaN.
class GuardedArray {
 public:
    explicit GuardedArray(const std::vector<std::byte>& content)
        : bytes_(guard_bytes + content.size() + guard_bytes, std::byte(0xff)) {
        std::memcpy(bytes_.data() + guard_bytes, content.data(), content.size());
    }
    const void* data() const { return bytes_.data() + guard_bytes; }

 private:
    std::vector<std::byte> bytes_;
};

/// Inputs and outputs of one call.
struct HostArrays {
    HostArrays(const Problem& problem, const InputArrays& inputs, std::byte output_byte)
        : q(inputs.q),
          k(inputs.k),
          v(inputs.v),
          o(output_bytes(problem, Stage::o, problem.dtype_o), output_byte),
          lse(output_bytes(problem, Stage::lse, Dtype::f32), output_byte) {
        args = sizes_of(problem);
        args.q = q.data();
        args.k = k.data();
        args.v = v.data();
        args.o = o.data();
        args.lse = reinterpret_cast<float*>(lse.data());
    }

    GuardedArray q, k, v;
    std::vector<std::byte> o, lse;
    AttentionArgs args;
};

/// Runs the build with hooks, healthy or with the request's fault. `shared` is what shared memory holds.
Launch launch_on_cpu(const RunRequest& request, const AttentionArgs& args, const MemoryFill& shared,
                     const Sink& sink);

/// "CPU (2 threads)".
std::string cpu_name();

/// The plan's memory before anything is written.
MemoryBlock unwritten_memory(const CapturePlan& plan);

}  // namespace tilescope
