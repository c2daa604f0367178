#include "oracle/program/no_numbers.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tilescope {

namespace {

/// As it is written: what several operations take counts for each.
double length_of(const Program& program, int number, std::map<int, double>& known) {
    if (number < 0) return 0;
    if (const auto found = known.find(number); found != known.end()) return found->second;
    const ProgramNode& node = program.node(number);
    double length = 1;
    for (const int operand : node.of) length += length_of(program, operand, known);
    if (node.op == ProgramOp::read) {
        for (const int index : node.list) length += length_of(program, index, known);
    }
    return known[number] = length;
}

}  // namespace

std::int64_t without_number(const RewriteOutcome& outcome) {
    return std::ranges::count_if(outcome.explained,
                                 [](const LookedElement* one) { return !std::isfinite(one->got); });
}

bool some_wrong_is_finite(const SearchedCall& searched) {
    return std::ranges::any_of(searched.tiles(), [](const CallPart& tile) {
        return std::ranges::any_of(
            tile.elements, [](const LookedElement& one) { return !one.is_right && std::isfinite(one.got); });
    });
}

bool leaves_out(const Program& program, const ProgramMistake& mistake) {
    std::map<int, double> known;
    const auto is_shorter = [&](int declared, int becomes) {
        return length_of(program, becomes, known) < length_of(program, declared, known);
    };
    const ProgramArray& stage = program.array(mistake.stage);
    return is_shorter(mistake.is_start ? stage.start : stage.value, mistake.value) &&
           std::ranges::all_of(mistake.also, [&](const StageFormula& other) {
               return is_shorter(program.array(other.stage).value, other.value);
           });
}

}  // namespace tilescope
