#include "kernels/run/poison_runs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "dump/recording/array_shape.h"

namespace tilescope {

namespace {

/// The runs by whose outputs unwritten elements are told: they were filled in different ways.
constexpr std::size_t first_run = 0;
constexpr std::size_t other_fill = 1;
static_assert(poisons[first_run].fill.output_byte != poisons[other_fill].fill.output_byte);

bool all_are(std::span<const std::byte> bytes, std::byte value) {
    return std::ranges::all_of(bytes, [=](std::byte byte) { return byte == value; });
}

UnwrittenOutput::Place place_of(const ArrayShape& shape, std::int64_t element) {
    const std::int64_t row = element / shape.cols;
    const std::int64_t head = row / shape.rows;
    return {head / shape.heads, head % shape.heads, row % shape.rows, element % shape.cols};
}

/// Counts the elements of an output that two runs left as they had been filled, and gives `other` the fill of
/// `first` there.
UnwrittenOutput take_unwritten(const Problem& problem, Stage stage, std::span<const std::byte> first,
                               std::span<std::byte> other) {
    const ArrayShape shape = output_shape(problem, stage, stage_dtype(problem, stage));
    const std::size_t bytes = shape.element_bytes();
    UnwrittenOutput output;
    output.stage = stage;
    output.elements = std::int64_t(first.size() / bytes);
    for (std::int64_t element = 0; element < output.elements; ++element) {
        const std::size_t offset = std::size_t(element) * bytes;
        if (!all_are(first.subspan(offset, bytes), poisons[first_run].fill.output_byte)) continue;
        if (!all_are(other.subspan(offset, bytes), poisons[other_fill].fill.output_byte)) continue;
        if (output.unwritten++ == 0) output.first = place_of(shape, element);
        std::ranges::fill(other.subspan(offset, bytes), poisons[first_run].fill.output_byte);
    }
    return output;
}

bool comes_before(const StageDifference& a, const StageDifference& b) {
    return a.stage != b.stage ? comes_before(a.stage, b.stage) : comes_before(*a.first, *b.first);
}

}  // namespace

const PoisonedRun* PoisonReport::first_changed_run() const {
    const PoisonedRun* earliest = nullptr;
    for (const PoisonedRun& run : runs) {
        const StageDifference* change = first_changed(run.stages);
        if (change == nullptr) continue;
        if (earliest == nullptr || comes_before(*change, *first_changed(earliest->stages))) earliest = &run;
    }
    return earliest;
}

PoisonVerdict verdict_of(const PoisonReport& report) {
    PoisonVerdict verdict = PoisonVerdict::independent;
    for (const UnwrittenOutput& output : report.outputs) {
        if (output.unwritten > 0) verdict = PoisonVerdict::dependent;
    }
    for (const PoisonedRun& run : report.runs) {
        if (count_changed(run.stages) == 0) continue;
        if (run.poison->fill == poisons[first_run].fill) return PoisonVerdict::not_repeatable;
        verdict = PoisonVerdict::dependent;
    }
    return verdict;
}

PoisonResult run_poisoned(const RunRequest& request) {
    require_memory(request, 1);
    const RunInputs inputs = make_inputs(request.problem, *request.input, request.seed);
    KernelRun zeros = run_to_compare(request, inputs, poisons[first_run].fill);
    const std::vector<std::byte> o = zeros.o;
    const std::vector<std::byte> lse = zeros.lse;
    const RunBits first = bits_of(request, std::move(zeros));

    PoisonReport report;
    report.device = first.recording.provenance().device;
    for (std::size_t i = 1;; ++i) {
        KernelRun run = run_to_compare(request, inputs, poisons[i].fill);
        if (i == other_fill) {
            report.outputs.push_back(take_unwritten(request.problem, Stage::o, o, run.o));
            report.outputs.push_back(take_unwritten(request.problem, Stage::lse, lse, run.lse));
        }
        RunBits bits = bits_of(request, std::move(run));
        report.runs.push_back({&poisons[i], compare_bits(first, bits)});
        if (i + 1 == poisons.size()) return {std::move(report), std::move(bits.recording)};
    }
}

}  // namespace tilescope
