#include "kernels/run/watch_runs.h"

#include <utility>

#include "kernels/run/host_arrays.h"

namespace tilescope {

StatisticsRun keep_statistics(const RunRequest& request, const RunInputs& inputs) {
    return request.engine == Engine::cuda ? keep_statistics_on_cuda(request, inputs)
                                          : keep_statistics_on_cpu(request, inputs);
}

StatisticsRun keep_statistics_on_cpu(const RunRequest& request, const RunInputs& inputs) {
    const Problem& problem = request.problem;
    CapturePlan plan(problem, request.selection, request.sink_bytes, SinkMode::statistics);
    HostArrays arrays(problem, inputs, MemoryFill().output_byte);
    Provenance provenance = provenance_of(request);
    provenance.device = cpu_name();
    RecordedCall call(problem, units_of(*request.kernel, request.config), std::move(provenance), inputs);
    MemoryBlock memory = unwritten_memory(plan);
    call.set_launch(to_string(launch_on_cpu(request, arrays.args, MemoryFill(), plan.sink(memory.data()))));
    return {std::move(plan), std::move(memory), std::move(call)};
}

WatchResult run_watched(const RunRequest& request, std::size_t budget) {
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    WatchResult result;
    result.budget = budget;
    Units units;
    {
        const StatisticsRun first = keep_statistics(request, inputs);
        result.device = first.provenance().device;
        units = first.units();
        result.report = watch(first);
        watch_repeat(first, keep_statistics(request, inputs), result.report);
    }
    result.suspects = select_suspects(request.problem, units, result.report, budget);
    if (result.suspects.dumped == 0) return result;
    RunRequest again = request;
    again.selection = result.suspects.selection;
    again.sink_bytes = budget;
    require_memory(again);
    result.dump.emplace(run_kernel(again, inputs, MemoryFill()).recording);
    return result;
}

}  // namespace tilescope
