#include "oracle/causes/hidden_scores.h"

#include <algorithm>
#include <cmath>

#include "oracle/program/build.h"
#include "oracle/program/functions.h"

namespace tilescope {

namespace {

/// A formula in which every score is -inf, and whatever else it takes another number.
class OfHiddenScores {
 public:
    OfHiddenScores(const Program& program, double others)
        : program_(program), score_(program.array_named("s")), others_(others) {}

    /// NaN where it is not known.
    double at(int number) const {
        const ProgramNode& node = program_.node(number);
        const auto of = [&](std::size_t operand) { return at(node.of[operand]); };
        switch (node.op) {
            case ProgramOp::number:
                return node.number;
            case ProgramOp::read:
                return node.what == score_ ? -HUGE_VAL : others_;
            case ProgramOp::negative:
                return -of(0);
            case ProgramOp::plus:
                return of(0) + of(1);
            case ProgramOp::minus:
                return of(0) - of(1);
            case ProgramOp::times:
                return of(0) * of(1);
            case ProgramOp::quotient:
                return of(0) / of(1);
            case ProgramOp::larger:
                return std::max(of(0), of(1));
            case ProgramOp::smaller:
                return std::min(of(0), of(1));
            case ProgramOp::call:
                return function_of(ProgramFunction(node.what), {of(0), 0}).value;
            default:
                return std::nan("");
        }
    }

 private:
    const Program& program_;
    int score_;
    double others_;
};

/// Whether a choice asks a score whether it is hidden, which kernels need not.
bool asks_whether_hidden(const Program& program, const ProgramNode& choice) {
    const ProgramNode& condition = program.node(choice.of[1]);
    return condition.op == ProgramOp::more && is_infinite(program, condition.of[1]);
}

}  // namespace

std::optional<double> value_where_hidden(const Program& program, int formula) {
    const ProgramNode& node = program.node(formula);
    if (node.op == ProgramOp::chosen) formula = node.of[asks_whether_hidden(program, node) ? 0 : 2];
    const double value = OfHiddenScores(program, 0).at(formula);
    const bool is_one = !std::isnan(value) && value == OfHiddenScores(program, 1).at(formula);
    return is_one ? std::optional(value) : std::nullopt;
}

}  // namespace tilescope
