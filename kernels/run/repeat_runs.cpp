#include "kernels/run/repeat_runs.h"

#include <algorithm>

namespace tilescope {

namespace {

RepeatedStage& row_of(RepeatReport& report, Stage stage) {
    const auto row = std::ranges::find(report.stages, stage, &RepeatedStage::stage);
    if (row != report.stages.end()) return *row;
    // A later run may be the first one to record anything of a stage.
    const auto next = std::ranges::find_if(
        report.stages, [&](const RepeatedStage& other) { return comes_before(stage, other.stage); });
    RepeatedStage added;
    added.stage = stage;
    return *report.stages.insert(next, added);
}

}  // namespace

void add_run(const std::vector<StageDifference>& stages, int run, RepeatReport& report) {
    report.changed_runs += count_changed(stages) > 0;
    for (const StageDifference& difference : stages) {
        RepeatedStage& row = row_of(report, difference.stage);
        row.compared = std::max(row.compared, difference.compared);
        if (difference.changed == 0) continue;
        ++row.changed_runs;
        row.most_changed = std::max(row.most_changed, difference.changed);
        if (!row.first || comes_before(*difference.first, *row.first)) {
            row.first = difference.first;
            row.first_run = run;
        }
    }
}

RepeatReport repeat_runs(const RunRequest& request, int runs) {
    require_memory(request, 1);
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    const auto run_as = [&](int run) {
        RunRequest perturbed = request;
        perturbed.jitter = jitter_of_run(run);
        return bits_of(request, run_to_compare(perturbed, inputs, MemoryFill()));
    };
    const RunBits first = run_as(1);
    RepeatReport report;
    report.device = first.recording.provenance().device;
    report.runs = runs;
    for (int run = 2; run <= runs; ++run) {
        add_run(compare_bits(first, run_as(run)), run, report);
    }
    return report;
}

const RepeatedStage* first_changed(const RepeatReport& report) {
    const auto row = std::ranges::find_if(report.stages,
                                          [](const RepeatedStage& stage) { return stage.changed_runs > 0; });
    return row == report.stages.end() ? nullptr : &*row;
}

}  // namespace tilescope
