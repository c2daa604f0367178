#include <omp.h>

#include <cstring>
#include <vector>

#include "kernels/run_kernel.h"

namespace tilescope {

namespace {

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

}  // namespace

CapturedRun run_on_cpu(const RunRequest& request) {
    require_memory(request);
    const Problem& problem = request.problem;
    CapturePlan plan(problem, request.selection, request.sink_bytes);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());

    InputArrays inputs = make_inputs(problem, *request.input, request.seed);
    const GuardedArray q(inputs.q), k(inputs.k), v(inputs.v);
    std::vector<std::byte> o(output_bytes(problem, Stage::o, problem.dtype_o), std::byte(0xff));
    std::vector<std::byte> lse(output_bytes(problem, Stage::lse, Dtype::f32), std::byte(0xff));
    AttentionArgs args = sizes_of(problem);
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.o = o.data();
    args.lse = reinterpret_cast<float*>(lse.data());

    const EngineEntry& cpu = request.kernel->cpu;
    const Launch launch = request.fault == Fault::none ? cpu.healthy(args, request.config, sink)
                                                       : cpu.faulty(args, request.fault, sink);

    Provenance provenance = provenance_of(request);
    provenance.device = "CPU (" + std::to_string(omp_get_max_threads()) + " threads)";
    provenance.launch = to_string(launch);
    CapturedRun run(std::move(plan), std::move(memory), request.kernel->units, std::move(provenance),
                    std::move(inputs));
    run.merge_output(Stage::o, problem.dtype_o, o);
    run.merge_output(Stage::lse, Dtype::f32, lse);
    return run;
}

}  // namespace tilescope
