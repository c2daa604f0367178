#include "oracle/program/fitted_numbers.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "dump/schema/rounding.h"
#include "oracle/program/build.h"
#include "oracle/program/rewritten.h"
#include "oracle/program/solved.h"
#include "oracle/solve/number.h"

namespace tilescope {

namespace {

/// Powers of two that are tried before the first step, in parts of an octave.
constexpr int most_octaves = 4;
constexpr int parts_of_octave = 2;
/// The same of what is added, of either sign, around 1.
constexpr int least_offset = -10;
constexpr int largest_offset = 4;
constexpr int newton_steps = 8;
/// Of the number, over which the slope is taken: much more than what casts of the output leave open.
constexpr double step_share = 1.0 / 16;

/// Of the number, which casts in between leave open although no tolerance says so: another number rounds all otherwise.
constexpr double open_share = 1e-3;

/// A number of a stage's formula, or a part of it that may have a factor, or to which a number may be added.
enum class NumberRole : std::uint8_t { itself, factor, offset };
struct NumberSlot {
    int stage;
    int node;
    double declared;
    NumberRole role;
};

/// Numbers, and what is added to something.
void collect_slots(const Program& program, int number, std::vector<int>& numbers, std::vector<int>& terms) {
    const ProgramNode& node = program.node(number);
    const bool is_sum = node.op == ProgramOp::plus || node.op == ProgramOp::minus;
    if (is_sum && !node.is_whole) {
        for (const int term : {node.of[0], node.of[1]}) {
            if (program.node(term).op != ProgramOp::number) terms.push_back(term);
        }
    }
    if (node.op == ProgramOp::number && !node.is_whole && std::isfinite(node.number) && node.number != 0)
        numbers.push_back(number);
    for (std::size_t i = 0; i < node.of.size(); ++i) {
        const bool is_condition = node.op == ProgramOp::chosen && i == 1;
        if (node.of[i] >= 0 && !is_condition) collect_slots(program, node.of[i], numbers, terms);
    }
}

std::vector<NumberSlot> slots_of(const Program& program, int stage) {
    const int formula = program.array(stage).value;
    // A mask hides what it hid.
    const ProgramNode& whole = program.node(formula);
    std::vector<int> numbers;
    std::vector<int> factors{whole.op == ProgramOp::chosen ? whole.of[0] : formula};
    collect_slots(program, formula, numbers, factors);
    std::vector<NumberSlot> slots;
    slots.push_back({stage, factors.front(), 0, NumberRole::offset});
    for (const int node : factors) slots.push_back({stage, node, 1, NumberRole::factor});
    for (const int node : numbers)
        slots.push_back({stage, node, program.node(node).number, NumberRole::itself});
    return slots;
}

/// The stage's formula with another number.
int with_number(Program& program, const NumberSlot& slot, double number) {
    ProgramBuilder build(program);
    const int other = build.real(number);
    const ProgramOp op = slot.role == NumberRole::factor ? ProgramOp::times : ProgramOp::plus;
    return build.with_node(program.array(slot.stage).value, slot.node,
                           slot.role == NumberRole::itself ? other : build.of_two(op, slot.node, other));
}

const char* slot_name(NumberRole role) {
    constexpr const char* names[] = {"number", "factor", "term"};
    return names[std::size_t(role)];
}

/// What was stored of an element less what is expected of it, and what both may be off by.
struct Residual {
    double off = 0;
    double error = 0;

    double times() const { return std::abs(off) / error; }
};

struct FittedNumber {
    double value = 0;
    double uncertainty = 0;  ///< any number within it is as good
};

/// Fits one number to some rows of the wrong stage.
class NumberFit {
 public:
    NumberFit(SearchedCall& searched, const NumberSlot& slot) : searched_(searched), slot_(slot) {
        // Tolerances stay those of the declared number: one that makes them wide explains nothing.
        for (const Residual& one : replayed(slot.declared, most_rows)) errors_.push_back(one.error);
    }

    std::optional<FittedNumber> solve() const {
        double number = first_guess();
        double left = HUGE_VAL;
        for (int i = 0; i < newton_steps; ++i) {
            const std::vector<Residual> here = residuals(number, most_rows);
            const Step step = step_from(number, here);
            if (!std::isfinite(step.by)) break;
            const bool is_within = step.mean_square <= most_square;
            if (is_within && std::abs(step.by) <= open_share * std::abs(number))
                return FittedNumber{number + step.by, deviations * step.deviation + std::abs(step.by)};
            // Where it is the number, much less is left after each step.
            const double before = std::exchange(left, bits_left(here));
            if (!is_within && left > most_left * before) break;
            const double most = std::abs(number) / 4;
            number += std::clamp(step.by, -most, most);
        }
        return std::nullopt;
    }

 private:
    static constexpr std::size_t most_rows = 4;
    static constexpr double most_left = 0.9;
    static constexpr double deviations = 4;
    /// In tolerances, which know nothing of casts in between: all of them round otherwise at a number that is not quite the kernel's.
    static constexpr double most_square = 64;
    static constexpr double bits_of_none = 24;

    /// From a number to a better one.
    struct Step {
        double by = 0;
        double deviation = 0;    ///< what the tolerances leave open of it
        double mean_square = 0;  ///< of what is left, in tolerances
    };

    std::vector<Residual> replayed(double number, std::size_t rows) const {
        Program& program = searched_.program();
        const ProgramRewrite rewrite{.stage = slot_.stage, .value = with_number(program, slot_, number)};
        const Rewritten with(program, rewrite, program.array(slot_.stage).dtype);
        const Dtype dtype = program.array(searched_.wrong()).dtype;
        std::vector<Residual> residuals;
        searched_.look_at_rows(slot_.stage, rows, [&](const LookedElement& element, Uncertain expected) {
            const bool is_number = element.is_known && std::isfinite(element.got);
            residuals.push_back({is_number ? element.got - expected.value : std::nan(""),
                                 expected.error + cast_bound(dtype, std::abs(element.got))});
        });
        return residuals;
    }

    std::vector<Residual> residuals(double number, std::size_t rows) const {
        std::vector<Residual> all = replayed(number, rows);
        for (std::size_t i = 0; i < all.size(); ++i) all[i].error = errors_[i];
        return all;
    }

    /// That it takes to say what is left.
    static double bits_left(const std::vector<Residual>& residuals) {
        double bits = 0;
        for (const Residual& one : residuals) {
            if (!(one.error < HUGE_VAL)) continue;
            bits += std::isfinite(one.off) ? std::log2(1 + one.times()) : bits_of_none;
        }
        return bits;
    }

    /// By one row.
    double first_guess() const {
        double least = HUGE_VAL;
        double best = slot_.declared;
        const auto take = [&](double number) {
            const double left = bits_left(residuals(number, 1));
            if (!(left < least)) return;
            least = left;
            best = number;
        };
        if (slot_.role == NumberRole::offset) {
            for (int k = least_offset; k <= largest_offset; ++k)
                for (const double sign : {1.0, -1.0}) take(sign * std::exp2(k));
        } else {
            for (int k = -most_octaves * parts_of_octave; k <= most_octaves * parts_of_octave; ++k)
                take(slot_.declared * std::exp2(double(k) / parts_of_octave));
        }
        return best;
    }

    Step step_from(double number, const std::vector<Residual>& here) const {
        const double beside = number * step_share;
        const std::vector<Residual> there = residuals(number + beside, most_rows);
        double gradient = 0;
        double curvature = 0;
        double squares = 0;
        double count = 0;
        for (std::size_t i = 0; i < here.size(); ++i) {
            const double error = here[i].error;
            const double slope = (here[i].off - there[i].off) / (beside * error);
            if (!std::isfinite(slope) || !(error < HUGE_VAL)) continue;
            gradient += here[i].off / error * slope;
            curvature += slope * slope;
            squares += here[i].times() * here[i].times();
            ++count;
        }
        return {gradient / curvature, 1 / std::sqrt(curvature), squares / count};
    }

    SearchedCall& searched_;
    const NumberSlot& slot_;
    std::vector<double> errors_;
};

}  // namespace

std::vector<ProgramRewrite> fitted_numbers(SearchedCall& searched) {
    std::vector<NumberSlot> slots;
    for (const int stage : searched.rewritten()) {
        if (stage == searched.wrong()) continue;
        for (NumberSlot& slot : slots_of(searched.program(), stage)) slots.push_back(std::move(slot));
    }
    std::vector<ProgramRewrite> found;
    const double places = 4 + std::log2(double(slots.size()) + 1);
    for (const NumberSlot& slot : slots) {
        const std::optional<FittedNumber> fitted = NumberFit(searched, slot).solve();
        if (!fitted) continue;
        std::optional<double> told;
        for (const double uncertainty : {fitted->uncertainty, open_share * std::abs(fitted->value)}) {
            const KnownNumber number = simplest_number(fitted->value, uncertainty, {});
            if (number.value == slot.declared || number.value == told) continue;
            told = number.value;
            const double bits = bits_of_real + (number.is_round ? 0 : bits_of_real_that_is_not_round);
            found.push_back({slot.stage, with_number(searched.program(), slot, number.value), std::nullopt,
                             places + bits, slot_name(slot.role)});
        }
    }
    return found;
}

}  // namespace tilescope
