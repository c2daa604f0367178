#include "oracle/program/judge_program.h"
#include "oracle/program/element_operations.h"
#include "oracle/program/formula_changes.h"
#include "oracle/program/program_tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

/// Of a stage, or of a state with the blocks that it goes over where as many dimensions are given.
std::vector<std::int64_t> whole_shape_of(const ProgramCall& call, const ProgramArray& stage,
                                         std::size_t dims) {
    std::vector<std::int64_t> shape = shape_of(call, stage);
    if (stage.over >= 0 && dims != shape.size()) shape.insert(shape.begin(), call.blocks_of(stage.over));
    return shape;
}

/// Errors: Error unless an array is of a stage with this shape, or of a part of it.
void require_part(const ProgramInput& array, const std::vector<std::int64_t>& whole,
                  const std::string& name) {
    bool fits = array.shape.size() == whole.size();
    std::int64_t elements = 1;
    for (std::size_t i = 0; fits && i < whole.size(); ++i) {
        const std::int64_t extent = array.shape[i];
        elements *= extent;
        fits = array.first.empty() ? extent == whole[i]
                                   : extent <= whole[i] && array.first[i] <= whole[i] - extent;
    }
    if (!fits)
        throw Error("its shape is " + shape_text(array.shape) +
                        (array.first.empty() ? "" : " from " + shape_text(array.first)) +
                        ", and the program makes " + shape_text(whole),
                    name, "give an array of that shape; of a state, the last one alone may be given");
    if (std::size_t(elements * dtype_info(array.dtype).bytes) != array.bits.size())
        throw Error(
            "it has " + std::to_string(array.bits.size()) + " bytes, which are not those of its shape", name,
            "give all of its elements");
}

bool is_judged_in_part(const ProgramReport& report) {
    return std::ranges::any_of(report.stages, [](const StageVerdict& v) { return v.not_judged > 0; });
}

}  // namespace

StoredArrays::StoredArrays(const ProgramCall& call, const std::map<std::string, ProgramInput>& stored)
    : call_(call), arrays_(call.program.arrays.size()) {
    for (const auto& [name, array] : stored) {
        const int stage = call.program.array_named(name);
        if (stage < 0 || !call.program.array(stage).is_stage)
            throw Error("the program has no such stage", name, "give those that it declares");
        require_part(array, whole_shape_of(call, call.program.array(stage), array.shape.size()), name);
        arrays_[std::size_t(stage)] = array;
    }
}

void StoredArrays::read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const {
    const ProgramInput& array = arrays_[std::size_t(tile.stage)];
    const std::size_t dims = tile.indices.size();
    const std::size_t begin = array.shape.size() - dims;  // 1 where blocks come first
    const ProgramArray& stage = call_.program.array(tile.stage);
    if (stage.over >= 0 && begin == 0 && tile.block != call_.last_block(stage)) return;
    const auto first = [&](std::size_t dim) { return array.first.empty() ? 0 : array.first[dim]; };
    const auto is_in = [&](std::int64_t index, std::size_t dim) {
        return index >= first(dim) && index < first(dim) + array.shape[dim];
    };
    if (begin > 0 && !is_in(tile.block, 0)) return;
    // Row by row along the last index, as far as it is recorded.
    const std::int64_t length = dims == 0 ? 1 : tile.indices.back().count;
    const std::int64_t last_first = dims == 0 ? 0 : tile.indices.back().first - first(begin + dims - 1);
    const std::int64_t last_extent = dims == 0 ? 1 : array.shape.back();
    const std::int64_t from = std::clamp<std::int64_t>(-last_first, 0, length);
    const std::int64_t end = std::clamp<std::int64_t>(last_extent - last_first, from, length);
    std::vector<std::int64_t> index(dims, 0);
    for (std::int64_t i = 0; i < tile.size(); i += length) {
        std::int64_t address = begin > 0 ? tile.block - first(0) : 0;
        bool is_recorded = true;
        for (std::size_t k = 0; k + 1 < dims; ++k) {
            const std::int64_t at = tile.indices[k].first + index[k];
            is_recorded = is_recorded && is_in(at, begin + k);
            address = address * array.shape[begin + k] + at - first(begin + k);
        }
        if (is_recorded && end > from) {
            if (dims > 0) address = address * last_extent + last_first + from;
            double* const row = out.data() + i + from;
            decode(array, address, end - from, row);
            mark_written(row, end - from, known.data() + i + from);
        }
        for (std::size_t k = dims; k > 1 && ++index[k - 2] == tile.indices[k - 2].count; --k)
            index[k - 2] = 0;
    }
}

double ProgramElement::times() const {
    const double difference = std::abs(got - expected);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    return difference / std::max(tolerance, std::numeric_limits<double>::min());
}

const StageVerdict& ProgramReport::verdict_of(int stage) const {
    return *std::ranges::find(stages, stage, &StageVerdict::stage);
}

std::string_view to_string(ProgramStageState state) {
    constexpr std::string_view words[] = {"ok", "not judged", "inherited", "wrong", "first wrong"};
    return words[std::size_t(state)];
}

ProgramStageState state_of(const ProgramReport& report, const StageVerdict& verdict) {
    if (verdict.stage == report.first_wrong) return ProgramStageState::first_wrong;
    if (verdict.outside > 0) return ProgramStageState::wrong;
    if (verdict.inherited > 0) return ProgramStageState::inherited;
    return verdict.not_judged == verdict.compared ? ProgramStageState::not_judged : ProgramStageState::ok;
}

ProgramReport judge_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options) {
    std::vector<ProgramTally> tallies = tallies_for(call, options.tells_inherited);
    observe_program(
        call, stored, options,
        [&](const ObservedProgramTile& observed) {
            tallies[std::size_t(observed.tile.stage)].take(observed);
        },
        [&](const MatchingProgramTile& matching) { tallies[std::size_t(matching.stage)].take(matching); });
    ProgramReport report;
    report.first_wrong = first_wrong_of(call.program, tallies);
    bool is_judged = false;
    for (int i = 0; i < int(tallies.size()); ++i) {
        StageVerdict& verdict = tallies[std::size_t(i)].verdict;
        if (verdict.compared == 0 && verdict.unwritten == 0) continue;
        verdict.stage = i;
        verdict.conflicts = stored.conflicts(i);
        verdict.hooks = stored.hooks(i);
        is_judged = is_judged || verdict.not_judged < verdict.compared;
        report.stages.push_back(std::move(verdict));
    }
    if (report.stages.empty())
        throw Error("nothing of what the kernel stored is given", "program",
                    "give its outputs, or other stages");
    if (!is_judged)
        throw Error("no element can be judged: its tolerances are as wide as what is expected", "program",
                    "give stages between inputs and outputs, or inputs of another size");
    if (options.tells_inherited && report.first_wrong >= 0)
        judge_end_to_end(call, stored, std::move(options), tallies, report);
    return report;
}

void require_judged_outputs(const Program& program, const ProgramReport& report) {
    if (report.first_wrong >= 0) return;
    for (const StageVerdict& verdict : report.stages) {
        const bool is_output = std::ranges::find(program.outputs, verdict.stage) != program.outputs.end();
        if (is_output && 2 * verdict.not_judged > verdict.compared)
            throw Error(
                fmt::format("{} of {} elements of {} cannot be judged: their tolerances are as wide as "
                            "what is expected",
                            verdict.not_judged, verdict.compared, program.array(verdict.stage).name),
                "program", "give stages between inputs and outputs, or inputs of another size");
    }
}

std::string place_text(const Program& program, int stage, const ProgramElement& element) {
    std::string text;
    if (!element.index.empty()) text = fmt::format("[{}]", fmt::join(element.index, ", "));
    if (element.block < 0) return text;
    const int over = program.array(stage).over;
    return fmt::format("{} after block {} of {}", text, element.block, program.axes[std::size_t(over)].name);
}

std::string expected_text(Dtype dtype, double expected, double tolerance) {
    if (dtype == Dtype::f32 || !std::isfinite(expected) || !std::isfinite(tolerance))
        return fmt::format("{:.9g} +- {:.3g}", expected, tolerance);
    const std::string_view type = dtype_info(dtype).name;
    if (tolerance == 0) return fmt::format("{:.9g} ({})", expected, type);
    return fmt::format("{:.9g} to {:.9g} ({})", expected - tolerance, expected + tolerance, type);
}

std::string verdict_line(const Program& program, const ProgramReport& report, std::size_t most_of_formula) {
    if (report.first_wrong < 0) return is_judged_in_part(report) ? "match of what can be judged" : "match";
    const ProgramArray& array = program.array(report.first_wrong);
    std::string formula = program_text(program, array.value);
    if (formula.size() > most_of_formula) formula = formula.substr(0, most_of_formula - 3) + "...";
    return fmt::format("diverged: {} is the first wrong stage, declared as {}", array.name, formula);
}

std::string end_to_end_line(const Program& program, const ProgramReport& report) {
    if (report.first_wrong_end_to_end < 0)
        return "end to end nothing is wrong: it stays within what rounding may do from the inputs on";
    return "end to end " + program.array(report.first_wrong_end_to_end).name + " is the first wrong stage";
}

std::string evidence_text(const ProgramMistake& mistake) {
    const std::string text = fmt::format("explains {:.4g} % of the elements looked at, the program {:.4g} %",
                                         100 * mistake.explained, 100 * mistake.healthy);
    if (mistake.open == 0) return text;
    return text + fmt::format("; {:.4g} % it reads beyond an array, where nobody knows what stands",
                              100 * double(mistake.open) / double(mistake.elements));
}

bool is_mostly_open(const ProgramMistake& mistake) {
    constexpr double most_unknown = 0.25;
    return double(mistake.open) > most_unknown * double(mistake.elements);
}

bool is_said_of_stage(const ProgramMistake& mistake) {
    return mistake.is_start || mistake.store;
}

std::string_view word_of_wrong(const FoundMistakes& found) {
    return found.wrong_is_none ? "infinite, or no number," : "wrong";
}

std::vector<ChangedSlot> slots_of(const FoundMistakes& found, const ProgramMistake& mistake) {
    if (!found.program || mistake.value < 0 || mistake.is_none) return {};
    return slots_of(*found.program, mistake);
}

std::vector<ChangedSlot> slots_of(const Program& found_in, const ProgramMistake& mistake) {
    if (mistake.store) return {changed_store(found_in, mistake.stage, *mistake.store)};
    const ProgramArray& array = found_in.array(mistake.stage);
    return changed_slots(found_in, mistake.is_start ? array.start : array.value, mistake.value,
                         mistake.is_start);
}

namespace {

/// "acc is hooked at csrc/gemm.cu:61": where what the stage held was recorded; empty: nobody knows.
std::string hooked_text(const Program& program, const ProgramReport& report, int stage) {
    const auto verdict = std::ranges::find(report.stages, stage, &StageVerdict::stage);
    if (verdict == report.stages.end() || verdict->hooks.empty()) return "";
    constexpr std::size_t most = 3;
    std::vector<std::string> places;
    for (const SourceLine& hook : verdict->hooks)
        if (places.size() < most) places.push_back(to_string(hook));
    const std::size_t more = verdict->hooks.size() - places.size();
    return fmt::format("{} is hooked at {}{}", program.array(stage).name, fmt::join(places, ", "),
                       more > 0 ? fmt::format(" and {} more", more) : "");
}

/// What explains a wrong stage, or where it is wrong.
std::string found_text(const Program& program, const ProgramReport& report, const FoundMistakes& found,
                       std::string_view heading) {
    std::string text;
    const std::string hooked = hooked_text(program, report, found.seen_in);
    for (const ProgramMistake& mistake : found.mistakes) {
        text += fmt::format("{}: {}{}{}{}\n",
                            found.mistakes.size() > 1 ? "one of these"
                            : is_mostly_open(mistake) ? "perhaps"
                                                      : heading,
                            program.array(mistake.stage).name, is_said_of_stage(mistake) ? " " : " = ",
                            mistake.becomes, mistake.where.empty() ? "" : ", where " + mistake.where);
        const std::vector<ChangedSlot> slots = slots_of(found, mistake);
        if (!slots.empty())
            text += fmt::format("  it {}\n  look at: {}{}{}\n", said_of(slots), look_at_of(slots),
                                hooked.empty() ? "" : "; ", hooked);
        text += "  " + evidence_text(mistake) + "\n";
    }
    if (found.besides)
        text += fmt::format(
            "besides: {} is no number where {}: nobody wrote it, or it was made of what is none\n",
            program.array(found.besides->stage).name, found.besides->where);
    if (!found.wrong_where.empty())
        text += fmt::format("{} is {} where {}, and right elsewhere\n", program.array(found.seen_in).name,
                            word_of_wrong(found), found.wrong_where);
    if (!hooked.empty() && text.find(hooked) == std::string::npos) text += hooked + "\n";
    const bool is_nothing = found.mistakes.empty() && !found.besides && !found.is_cut_off;
    return is_nothing && found.program ? text + "no formula was found that explains it\n" : text;
}

}  // namespace

std::string report_text(const ProgramCall& call, const ProgramReport& report, const FoundMistakes& found) {
    const Program& program = call.program;
    const bool some_not_judged = is_judged_in_part(report);
    const bool some_inherited =
        std::ranges::any_of(report.stages, [](const StageVerdict& v) { return v.inherited > 0; });
    const auto rare = [&](const auto& not_judged, const auto& inherited) {
        return (some_not_judged ? fmt::format(" {:>10}", not_judged) : "") +
               (some_inherited ? fmt::format(" {:>10}", inherited) : "");
    };
    const auto count_of = [&](std::int64_t StageVerdict::*member, const char* noun) {
        std::string counts;
        for (const StageVerdict& verdict : report.stages)
            if (verdict.*member > 0)
                counts += fmt::format("{}{} of {}", counts.empty() ? "" : ", ", verdict.*member,
                                      program.array(verdict.stage).name);
        return counts.empty() ? counts : fmt::format("{}: {}\n", noun, counts);
    };
    std::string text = fmt::format("{:<12} {:>12} {:>10}{} {:>12} {:>12}  state\n", "stage", "compared",
                                   "outside", rare("not judged", "inherited"), "max |diff|", "of budget");
    for (const StageVerdict& verdict : report.stages) {
        const ProgramStageState state = state_of(report, verdict);
        const std::string_view word =
            state == ProgramStageState::first_wrong ? "FIRST WRONG" : to_string(state);
        text +=
            fmt::format("{:<12} {:>12} {:>10}{} {:>12.3g} {:>12.3g}  {}\n", program.array(verdict.stage).name,
                        verdict.compared, verdict.outside, rare(verdict.not_judged, verdict.inherited),
                        verdict.largest_difference, verdict.budget_used, word);
    }
    text += count_of(&StageVerdict::unwritten, "elements that no hook wrote");
    text += count_of(&StageVerdict::conflicts, "writes that changed an element already written");
    if (report.first_wrong < 0) return text + verdict_line(program, report) + "\n";
    if (report.first_wrong_end_to_end != report.first_wrong) text += end_to_end_line(program, report) + "\n";
    const StageVerdict& wrong = report.verdict_of(report.first_wrong);
    for (const ProgramElement& element : wrong.worst)
        text +=
            fmt::format("{}{}: {}, expected {}\n", program.array(wrong.stage).name,
                        place_text(program, wrong.stage, element),
                        nobody_wrote(element.got) ? "unwritten" : fmt::format("got {:.9g}", element.got),
                        expected_text(program.array(wrong.stage).dtype, element.expected, element.tolerance));
    FoundMistakes of_first = found;
    of_first.seen_in = report.first_wrong;
    text += found_text(program, report, of_first, "instead");
    for (const FoundMistakes& other : found.then) {
        if (other.mistakes.empty() && other.wrong_where.empty() && !other.besides) continue;
        text += found_text(program, report, other, "then");
    }
    if (found.is_cut_off || std::ranges::any_of(found.then, &FoundMistakes::is_cut_off))
        text += "the search for a formula that explains it was cut off\n";
    return text + verdict_line(program, report) + "\n";
}

}  // namespace tilescope
