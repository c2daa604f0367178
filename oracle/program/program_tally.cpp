#include "oracle/program/program_tally.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tilescope {

namespace {

constexpr std::size_t most_worst = 5;
constexpr std::size_t most_samples = 8;

/// How many blocks the loop of the stage went through before it came to an element of it.
std::int64_t blocks_before(const ProgramCall& call, int stage, const ProgramElement& element) {
    const Program& program = call.program;
    const ProgramLoop& loop = program.loops[std::size_t(program.loop_of(stage))];
    if (loop.axis < 0) return 0;
    std::int64_t block = element.block;
    const std::vector<int>& indices = program.array(stage).indices;
    for (std::size_t i = 0; i < indices.size() && block < 0; ++i)
        if (program.axis_of(indices[i]) == loop.axis)
            block = element.index[i] / call.blocks[std::size_t(loop.axis)];
    return call.block_in_order(loop.axis, loop.backwards, std::max<std::int64_t>(block, 0));
}

/// Whether what was stored of it is what anything else is computed from.
bool feeds_others(const Program& program, int stage) {
    return std::ranges::any_of(program.arrays, [&](const ProgramArray& array) {
        return array.is_stage && (reads(program, array.value, stage) || reads(program, array.start, stage));
    });
}

}  // namespace

void ProgramTally::take(const ObservedProgramTile& observed) {
    for (std::size_t i = 0; i < observed.got.size(); ++i) {
        const ProgramFinding finding = observed.findings[i];
        if (finding == ProgramFinding::not_stored) continue;
        verdict.unwritten += nobody_wrote(observed.got[i]) ? 1 : 0;
        if (finding == ProgramFinding::left_out) continue;
        ++verdict.compared;
        if (finding == ProgramFinding::nothing_expected || finding == ProgramFinding::not_judged)
            ++verdict.not_judged;
        else
            count(observed, i);
    }
}

void ProgramTally::take(const MatchingProgramTile& matching) {
    verdict.compared += matching.elements;
    verdict.largest_difference = std::max(verdict.largest_difference, matching.largest_difference);
    verdict.budget_used = std::max(verdict.budget_used, matching.budget_used);
}

/// One that matches, or is outside.
void ProgramTally::count(const ObservedProgramTile& observed, std::size_t i) {
    const double got = observed.got[i];
    const double value = observed.expected.value[i];
    const double tolerance = observed.expected.error[i];
    if (std::isfinite(got) && std::isfinite(value)) {
        const double difference = std::abs(got - value);
        verdict.largest_difference = std::max(verdict.largest_difference, difference);
        if (observed.findings[i] == ProgramFinding::match && tolerance > 0)
            verdict.budget_used = std::max(verdict.budget_used, difference / tolerance);
    }
    if (observed.findings[i] != ProgramFinding::outside) return;
    if (marks_) mark(observed.tile, i);
    keep({observed.tile.index_of(std::int64_t(i)), observed.tile.block, got, value, tolerance});
}

void ProgramTally::keep(ProgramElement element) {
    ++verdict.outside;
    first_outside = std::min(first_outside, blocks_before(call_, stage_, element));
    if (!nobody_wrote(element.got)) sample(element);
    std::vector<ProgramElement>& worst = verdict.worst;
    if (worst.size() == most_worst && worst.back().times() >= element.times()) return;
    const auto place =
        std::ranges::find_if(worst, [&](const ProgramElement& e) { return e.times() < element.times(); });
    worst.insert(place, std::move(element));
    if (worst.size() > most_worst) worst.pop_back();
}

/// Every so many of them, more the more there are.
void ProgramTally::sample(const ProgramElement& element) {
    if (++sampled_ % every_ != 0) return;
    if (verdict.samples.size() == most_samples) {
        for (std::size_t i = 0; i < most_samples / 2; ++i) verdict.samples[i] = verdict.samples[2 * i];
        verdict.samples.resize(most_samples / 2);
        every_ *= 2;
    }
    verdict.samples.push_back(element);
}

void ProgramTally::mark(const ProgramTile& tile, std::size_t i) {
    if (outside_.empty()) {
        const ProgramArray& array = call_.program.array(stage_);
        std::int64_t elements = array.over < 0 ? 1 : call_.blocks_of(array.over);
        for (const std::int64_t extent : shape_of(call_, array)) elements *= extent;
        outside_.resize(std::size_t(elements));
    }
    outside_[number_of(tile, i)] = true;
}

/// Row-major, those of the first block before the others.
std::size_t ProgramTally::number_of(const ProgramTile& tile, std::size_t i) const {
    const std::vector<std::int64_t> shape = shape_of(call_, call_.program.array(stage_));
    const std::vector<std::int64_t> index = tile.index_of(std::int64_t(i));
    std::int64_t number = std::max<std::int64_t>(tile.block, 0);
    for (std::size_t dim = 0; dim < shape.size(); ++dim) number = number * shape[dim] + index[dim];
    return std::size_t(number);
}

std::vector<ProgramTally> tallies_for(const ProgramCall& call, bool marks) {
    std::vector<ProgramTally> tallies;
    for (int i = 0; i < int(call.program.arrays.size()); ++i) tallies.emplace_back(call, i, marks);
    return tallies;
}

int first_wrong_of(const Program& program, const std::vector<ProgramTally>& tallies) {
    const auto is_wrong = [&](int stage) { return tallies[std::size_t(stage)].verdict.outside > 0; };
    int first = 0;
    while (first < int(tallies.size()) && !is_wrong(first)) ++first;
    if (first == int(tallies.size())) return -1;
    const int end = program.loops[std::size_t(program.loop_of(first))].end;
    for (int later = first + 1; later < end; ++later) {
        const bool is_before =
            is_wrong(later) && reads(program, program.array(first).value, later) &&
            tallies[std::size_t(later)].first_outside < tallies[std::size_t(first)].first_outside;
        if (is_before) first = later;
    }
    return first;
}

void judge_end_to_end(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                      const std::vector<ProgramTally>& local, ProgramReport& report) {
    report.first_wrong_end_to_end = report.first_wrong;
    for (StageVerdict& verdict : report.stages) verdict.outside_end_to_end = verdict.outside;
    if (std::ranges::none_of(report.stages, [&](const StageVerdict& verdict) {
            return feeds_others(call.program, verdict.stage);
        }))
        return;
    std::vector<ProgramTally> whole = tallies_for(call, false);
    std::vector<std::int64_t> inherited(whole.size());
    options.from_inputs = true;
    const auto take = [&](const ObservedProgramTile& observed) {
        const auto stage = std::size_t(observed.tile.stage);
        whole[stage].take(observed);
        for (std::size_t i = 0; i < observed.findings.size(); ++i) {
            // What nobody wrote inherits nothing.
            const bool is_wrong =
                observed.findings[i] == ProgramFinding::outside && !nobody_wrote(observed.got[i]);
            if (is_wrong && !local[stage].was_outside(observed.tile, i)) ++inherited[stage];
        }
    };
    observe_program(call, stored, std::move(options), take, [&](const MatchingProgramTile& matching) {
        whole[std::size_t(matching.stage)].take(matching);
    });
    report.first_wrong_end_to_end = first_wrong_of(call.program, whole);
    for (StageVerdict& verdict : report.stages) {
        verdict.outside_end_to_end = whole[std::size_t(verdict.stage)].verdict.outside;
        verdict.inherited = inherited[std::size_t(verdict.stage)];
    }
}

}  // namespace tilescope
