#include <omp.h>

#include <optional>
#include <utility>
#include <vector>

#include "dump/cli/threads.h"
#include "dump/file/sink.h"
#include "kernels/run/host_arrays.h"

namespace tilescope {

namespace {

/// What is read before it is written shows up as NaN.
constexpr std::uint32_t shared_nan = 0xffffffffu;

}  // namespace

MemoryBlock unwritten_memory(const CapturePlan& plan) {
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    return memory;
}

std::string cpu_name() {
    return "CPU (" + std::to_string(omp_get_max_threads()) + " threads)";
}

Launch launch_on_cpu(const RunRequest& request, const AttentionArgs& args, const MemoryFill& shared,
                     const Sink& sink) {
    const CpuEntry& cpu = request.kernel->cpu;
    omp_set_num_threads(startable_threads(omp_get_max_threads()));
    const std::uint32_t word = shared.shared_word.value_or(shared_nan);
    const CpuBuild& build = request.fault == Fault::none ? *cpu.hooked : *cpu.faulty;
    return build.launch(args, request.config, request.fault, word, sink);
}

KernelRun run_on_cpu(const RunRequest& request, RunInputs inputs, const MemoryFill& fill) {
    const Problem& problem = request.problem;
    CapturePlan plan(problem, request.selection, request.sink_bytes, request.sink_mode);
    HostArrays arrays(problem, inputs, fill.output_byte);
    Provenance provenance = provenance_of(request);
    provenance.device = cpu_name();
    RecordedCall call(problem, units_of(*request.kernel, request.config), std::move(provenance),
                      std::move(inputs));
    call.set_threads(request.kernel->threads(request.config));

    std::optional<SinkFile> file;
    if (!request.sink_file.empty()) file.emplace(request.sink_file, plan, request.sink_bytes, call);
    MemoryBlock memory = file ? file->memory() : unwritten_memory(plan);
    const Sink sink = plan.sink(memory.data());

    const Launch launch = launch_on_cpu(request, arrays.args, fill, sink);
    call.set_launch(to_string(launch));
    CapturedRun run(std::move(plan), std::move(memory), std::move(call));
    run.merge_output(Stage::o, problem.dtype_o, arrays.o);
    run.merge_output(Stage::lse, Dtype::f32, arrays.lse);
    if (file) file->set_ended(run.capture().ended);
    return {std::move(run), std::move(arrays.o), std::move(arrays.lse)};
}

}  // namespace tilescope
