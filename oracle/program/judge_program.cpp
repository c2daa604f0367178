#include "oracle/program/judge_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "dump/schema/error.h"

namespace tilescope {

namespace {

constexpr std::size_t most_worst = 5;
constexpr std::size_t most_samples = 8;

/// Counts what is found, tile by tile.
class Tallied {
 public:
    void take(const ProgramTile& tile, const std::vector<double>& got, const std::vector<char>& known,
              const ExpectedTile& expected) {
        // What is around an element tells how much a tolerance of that size leaves open.
        double around = 0;
        for (const double value : expected.value) {
            if (std::isfinite(value)) around = std::max(around, std::abs(value));
        }
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (known[i] == 0) continue;
            const double value = expected.value[i];
            const double tolerance = expected.error[i];
            ++verdict.compared;
            // Nothing is expected of what is computed from NaN.
            if (std::isnan(value) || std::isinf(tolerance)) {
                ++verdict.not_judged;
                continue;
            }
            if (is_as_expected(got[i], value, tolerance)) {
                // Whatever is around would have passed.
                if (tolerance > 0 && tolerance >= around && around > 0) {
                    ++verdict.not_judged;
                    continue;
                }
                const double difference = std::isfinite(value) ? std::abs(got[i] - value) : 0;
                verdict.largest_difference = std::max(verdict.largest_difference, difference);
                if (tolerance > 0)
                    verdict.budget_used = std::max(verdict.budget_used, difference / tolerance);
                continue;
            }
            if (std::isfinite(got[i]) && std::isfinite(value))
                verdict.largest_difference = std::max(verdict.largest_difference, std::abs(got[i] - value));
            keep({tile.index_of(std::int64_t(i)), tile.block, got[i], value, tolerance});
        }
    }

    StageVerdict verdict;
    /// Elements outside as the loop comes to them, the first one: how many blocks it went through before.
    std::int64_t blocks_before = std::numeric_limits<std::int64_t>::max();

    /// Of the loop that the stage is in.
    std::function<std::int64_t(const ProgramElement&)> blocks_before_of;

 private:
    void keep(ProgramElement element) {
        ++verdict.outside;
        blocks_before = std::min(blocks_before, blocks_before_of(element));
        // Every so many of them, more the more there are.
        if (verdict.outside % every_ == 0) {
            if (verdict.samples.size() == most_samples) {
                for (std::size_t i = 0; i < most_samples / 2; ++i)
                    verdict.samples[i] = verdict.samples[2 * i];
                verdict.samples.resize(most_samples / 2);
                every_ *= 2;
            }
            verdict.samples.push_back(element);
        }
        std::vector<ProgramElement>& worst = verdict.worst;
        if (worst.size() == most_worst && worst.back().times() >= element.times()) return;
        const auto place =
            std::ranges::find_if(worst, [&](const ProgramElement& e) { return e.times() < element.times(); });
        worst.insert(place, std::move(element));
        if (worst.size() > most_worst) worst.pop_back();
    }

    std::int64_t every_ = 1;
};

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

/// The first of those that are wrong, in the order of the program. One that takes the state of a later stage, from the block before,
/// comes after that where it was wrong in an earlier block.
int first_wrong_of(const Program& program, const std::vector<Tallied>& tallies) {
    const auto is_wrong = [&](int stage) { return tallies[std::size_t(stage)].verdict.outside > 0; };
    int first = 0;
    while (first < int(tallies.size()) && !is_wrong(first)) ++first;
    if (first == int(tallies.size())) return -1;
    const int end = program.loops[std::size_t(program.loop_of(first))].end;
    for (int later = first + 1; later < end; ++later) {
        const bool is_before =
            is_wrong(later) && reads(program, program.array(first).value, later) &&
            tallies[std::size_t(later)].blocks_before < tallies[std::size_t(first)].blocks_before;
        if (is_before) first = later;
    }
    return first;
}

}  // namespace

StoredArrays::StoredArrays(const ProgramCall& call, const std::map<std::string, ProgramInput>& stored)
    : call_(call), arrays_(call.program.arrays.size()) {
    for (const auto& [name, array] : stored) {
        const int stage = call.program.array_named(name);
        if (stage < 0 || !call.program.array(stage).is_stage)
            throw Error("the program has no such stage", name, "give those that it declares");
        const std::vector<std::int64_t> shape = shape_of(call, call.program.array(stage));
        std::vector<std::int64_t> with_blocks = shape;
        const int over = call.program.array(stage).over;
        if (over >= 0) with_blocks.insert(with_blocks.begin(), call.blocks_of(over));
        if (array.shape != shape && array.shape != with_blocks)
            throw Error("its shape is " + shape_text(array.shape) + ", and the program makes " +
                            shape_text(with_blocks),
                        name,
                        over < 0 ? "give an array of that shape"
                                 : "give an array of that shape, or the last state alone");
        std::int64_t elements = 1;
        for (const std::int64_t extent : array.shape) elements *= extent;
        if (std::size_t(elements * dtype_info(array.dtype).bytes) != array.bits.size())
            throw Error(
                "it has " + std::to_string(array.bits.size()) + " bytes, which are not those of its shape",
                name, "give all of its elements");
        arrays_[std::size_t(stage)] = array;
    }
}

void StoredArrays::read(const ProgramTile& tile, std::span<double> out, std::span<char> known) const {
    const ProgramInput& array = arrays_[std::size_t(tile.stage)];
    const std::size_t dims = tile.indices.size();
    const bool has_blocks = array.shape.size() > dims;
    const ProgramArray& stage = call_.program.array(tile.stage);
    if (stage.over >= 0 && !has_blocks && tile.block != call_.last_block(stage)) return;
    std::ranges::fill(known, char(1));
    // Row by row along the last index.
    const std::int64_t length = dims == 0 ? 1 : tile.indices.back().count;
    for (std::int64_t i = 0; i < tile.size(); i += length) {
        const std::vector<std::int64_t> index = tile.index_of(i);
        std::int64_t address = has_blocks ? tile.block : 0;
        for (std::size_t k = 0; k < dims; ++k)
            address = address * array.shape[k + (has_blocks ? 1 : 0)] + index[k];
        for (std::int64_t k = 0; k < length; ++k) out[std::size_t(i + k)] = element_of(array, address + k);
    }
}

double ProgramElement::times() const {
    const double difference = std::abs(got - expected);
    if (!std::isfinite(difference)) return std::numeric_limits<double>::infinity();
    return difference / std::max(tolerance, std::numeric_limits<double>::min());
}

bool is_as_expected(double got, double expected, double tolerance) {
    return got == expected || std::abs(got - expected) <= tolerance;
}

const StageVerdict& ProgramReport::verdict_of(int stage) const {
    return *std::ranges::find(stages, stage, &StageVerdict::stage);
}

std::string_view to_string(ProgramStageState state) {
    constexpr std::string_view words[] = {"ok", "not judged", "wrong", "first wrong"};
    return words[std::size_t(state)];
}

ProgramStageState state_of(const ProgramReport& report, const StageVerdict& verdict) {
    if (verdict.stage == report.first_wrong) return ProgramStageState::first_wrong;
    if (verdict.outside > 0) return ProgramStageState::wrong;
    return verdict.not_judged == verdict.compared ? ProgramStageState::not_judged : ProgramStageState::ok;
}

ProgramReport judge_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options) {
    std::vector<Tallied> tallies(call.program.arrays.size());
    for (int i = 0; i < int(tallies.size()); ++i)
        tallies[std::size_t(i)].blocks_before_of = [&call, i](const ProgramElement& element) {
            return blocks_before(call, i, element);
        };
    options.stored = &stored;
    std::vector<double> got;
    std::vector<char> known;
    evaluate_program(call, options, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        if (!stored.has(tile.stage)) return;
        got.resize(expected.value.size());
        known.assign(got.size(), 0);
        stored.read(tile, got, known);
        tallies[std::size_t(tile.stage)].take(tile, got, known, expected);
    });
    ProgramReport report;
    report.first_wrong = first_wrong_of(call.program, tallies);
    bool is_judged = false;
    for (int i = 0; i < int(tallies.size()); ++i) {
        StageVerdict& verdict = tallies[std::size_t(i)].verdict;
        if (verdict.compared == 0) continue;
        verdict.stage = i;
        is_judged = is_judged || verdict.not_judged < verdict.compared;
        report.stages.push_back(std::move(verdict));
    }
    if (report.stages.empty())
        throw Error("nothing of what the kernel stored is given", "program",
                    "give its outputs, or other stages");
    if (!is_judged)
        throw Error("no element can be judged: its tolerances are as wide as what is expected", "program",
                    "give stages between inputs and outputs, or inputs of another size");
    return report;
}

std::string place_text(const Program& program, int stage, const ProgramElement& element) {
    std::string text;
    if (!element.index.empty()) text = fmt::format("[{}]", fmt::join(element.index, ", "));
    if (element.block < 0) return text;
    const int over = program.array(stage).over;
    return fmt::format("{} after block {} of {}", text, element.block, program.axes[std::size_t(over)].name);
}

std::string verdict_line(const Program& program, const ProgramReport& report) {
    if (report.first_wrong < 0) return "match";
    const ProgramArray& array = program.array(report.first_wrong);
    return fmt::format("diverged: {} is the first wrong stage, declared as {}", array.name,
                       program_text(program, array.value));
}

std::string report_text(const ProgramCall& call, const ProgramReport& report, const FoundMistakes& found) {
    const Program& program = call.program;
    const bool some_not_judged =
        std::ranges::any_of(report.stages, [](const StageVerdict& v) { return v.not_judged > 0; });
    const auto not_judged = [&](const auto& of) {
        return some_not_judged ? fmt::format(" {:>10}", of) : std::string();
    };
    std::string text = fmt::format("{:<12} {:>12} {:>10}{} {:>12} {:>12}  state\n", "stage", "compared",
                                   "outside", not_judged("not judged"), "max |diff|", "of budget");
    for (const StageVerdict& verdict : report.stages) {
        const ProgramStageState state = state_of(report, verdict);
        const std::string_view word =
            state == ProgramStageState::first_wrong ? "FIRST WRONG" : to_string(state);
        text +=
            fmt::format("{:<12} {:>12} {:>10}{} {:>12.3g} {:>12.3g}  {}\n", program.array(verdict.stage).name,
                        verdict.compared, verdict.outside, not_judged(verdict.not_judged),
                        verdict.largest_difference, verdict.budget_used, word);
    }
    if (report.first_wrong < 0) return text + verdict_line(program, report) + "\n";
    const StageVerdict& wrong = report.verdict_of(report.first_wrong);
    for (const ProgramElement& element : wrong.worst)
        text += fmt::format("{}{}: got {:.9g}, expected {:.9g} +- {:.3g}\n", program.array(wrong.stage).name,
                            place_text(program, wrong.stage, element), element.got, element.expected,
                            element.tolerance);
    const std::vector<ProgramMistake>& mistakes = found.mistakes;
    for (const ProgramMistake& mistake : mistakes)
        text +=
            fmt::format("{}: {}{}{}{}\n  explains {:.4g} % of the elements looked at, the program {:.4g} %\n",
                        mistakes.size() > 1 ? "one of these" : "instead", program.array(mistake.stage).name,
                        mistake.slot == "start" ? " " : " = ", mistake.becomes,
                        mistake.where.empty() ? "" : ", where " + mistake.where, 100 * mistake.explained,
                        100 * mistake.healthy);
    if (found.besides)
        text += fmt::format(
            "besides: {} is no number where {}: nobody wrote it, or it was made of what is none\n",
            program.array(found.besides->stage).name, found.besides->where);
    if (found.is_cut_off) text += "the search for a formula that explains it was cut off\n";
    return text + verdict_line(program, report) + "\n";
}

}  // namespace tilescope
