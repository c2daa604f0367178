#include <omp.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "dump/file_sink.h"
#include "kernels/run_kernel.h"

namespace tilescope {

namespace {

/// What is read before it is written shows up as NaN.
constexpr std::uint32_t shared_nan = 0xffffffffu;

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

MemoryBlock unwritten_memory(const CapturePlan& plan) {
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    return memory;
}

}  // namespace

KernelRun run_on_cpu(const RunRequest& request, InputArrays inputs, const MemoryFill& fill) {
    const Problem& problem = request.problem;
    CapturePlan plan(problem, request.selection, request.sink_bytes,
                     request.count_conflicts ? SinkMode::checked : SinkMode::tiles);
    const GuardedArray q(inputs.q), k(inputs.k), v(inputs.v);
    Provenance provenance = provenance_of(request);
    provenance.device = "CPU (" + std::to_string(omp_get_max_threads()) + " threads)";
    RecordedCall call(problem, request.kernel->units, std::move(provenance), std::move(inputs));

    std::optional<SinkFile> file;
    if (!request.sink_file.empty()) file.emplace(request.sink_file, plan, request.sink_bytes, call);
    MemoryBlock memory = file ? file->memory() : unwritten_memory(plan);
    const Sink sink = plan.sink(memory.data());

    std::vector<std::byte> o(output_bytes(problem, Stage::o, problem.dtype_o), fill.output_byte);
    std::vector<std::byte> lse(output_bytes(problem, Stage::lse, Dtype::f32), fill.output_byte);
    AttentionArgs args = sizes_of(problem);
    args.q = q.data();
    args.k = k.data();
    args.v = v.data();
    args.o = o.data();
    args.lse = reinterpret_cast<float*>(lse.data());

    const CpuEntry& cpu = request.kernel->cpu;
    const std::uint32_t shared_word = fill.shared_word.value_or(shared_nan);
    const Launch launch = request.fault == Fault::none ? cpu.healthy(args, request.config, shared_word, sink)
                                                       : cpu.faulty(args, request.fault, shared_word, sink);

    call.set_launch(to_string(launch));
    CapturedRun run(std::move(plan), std::move(memory), std::move(call));
    run.merge_output(Stage::o, problem.dtype_o, o);
    run.merge_output(Stage::lse, Dtype::f32, lse);
    if (file) file->set_ended(run.capture().ended);
    return {std::move(run), std::move(o), std::move(lse)};
}

}  // namespace tilescope
