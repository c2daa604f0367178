#include "kernels/run/again.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

void require_every_tile(const CapturedRun& run) {
    for (const StageInfo& info : stages_of(run.problem())) {
        if (run.capture().stages[std::size_t(info.stage)].elements_dropped == 0) continue;
        throw Error(
            fmt::format("there is no room for all tiles of {}, so they cannot be compared", info.name),
            "--sink-bytes", "raise it or --select fewer tiles");
    }
}

CapturedRun record_outputs(const RunRequest& request, const KernelRun& run) {
    const Problem& problem = request.problem;
    Selection outputs;
    outputs.stages = {Stage::o, Stage::lse};
    CapturePlan plan(problem, outputs, std::numeric_limits<std::size_t>::max());
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    CapturedRun recording(std::move(plan), std::move(memory), units_of(*request.kernel, request.config),
                          Provenance(), InputArrays());
    recording.merge_output(Stage::o, problem.dtype_o, run.o);
    recording.merge_output(Stage::lse, Dtype::f32, run.lse);
    return recording;
}

}  // namespace

KernelRun run_to_compare(const RunRequest& request, const RunInputs& inputs, const MemoryFill& fill) {
    KernelRun run = run_kernel(request, inputs, fill);
    const std::string& ended = run.recording.capture().ended;
    if (ended != "completed") {
        throw Error(
            "the kernel failed (" + ended + ")", std::string(request.kernel->name),
            "record it with tile-run record --sink-memory mapped, and see how far it came with tile-diff");
    }
    require_every_tile(run.recording);
    return run;
}

RunBits bits_of(const RunRequest& request, KernelRun run) {
    CapturedRun outputs = record_outputs(request, run);
    return {std::move(run.recording), std::move(outputs)};
}

std::vector<StageDifference> compare_bits(const RunBits& first, const RunBits& second) {
    std::vector<StageDifference> stages = compare_runs(first.recording, second.recording);
    // Both kinds of runs have outputs; only these have all of them.
    std::erase_if(stages, [](const StageDifference& row) { return is_output(row.stage); });
    std::ranges::move(compare_runs(first.outputs, second.outputs), std::back_inserter(stages));
    return stages;
}

}  // namespace tilescope
