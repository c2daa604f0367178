#include "oracle/program/observe_program.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace tilescope {

namespace {

/// The number that a node is, and nothing else.
std::optional<double> literal_of(const Program& program, int number) {
    const ProgramNode& node = program.node(number);
    if (node.op == ProgramOp::number) return node.number;
    if (node.op != ProgramOp::negative) return std::nullopt;
    const std::optional<double> positive = literal_of(program, node.of[0]);
    return positive ? std::optional(-*positive) : std::nullopt;
}

/// What a kernel may leave out without that anything changes: elements that a condition leaves out in the formula of the stage,
/// and states that a block leaves as they were.
class LeftOut {
 public:
    LeftOut(const Program& program, const ProgramArray& stage) : is_state_(stage.over >= 0) {
        if (!stage.is_stage) return;
        const ProgramNode& formula = program.node(stage.value);
        if (formula.op == ProgramOp::chosen) otherwise_ = literal_of(program, formula.of[2]);
        if (is_state_) start_ = literal_of(program, stage.start);
    }

    bool may_be(const ProgramTile& tile, std::size_t i, const ExpectedTile& expected) const {
        const double value = expected.value[i];
        if (otherwise_ && expected.error[i] == 0 && value == *otherwise_) return true;
        if (!is_state_) return false;
        const bool goes_on = before_.size() == expected.value.size() && tile.indices == of_before_;
        return goes_on ? value == before_[i] : start_ && value == *start_;
    }

    /// Tiles of a state come block after block.
    void pass(const ProgramTile& tile, const std::vector<double>& got, const std::vector<char>& known,
              const ExpectedTile& expected) {
        if (!is_state_) return;
        of_before_ = tile.indices;
        before_ = expected.value;
        for (std::size_t i = 0; i < got.size(); ++i)
            if (known[i] != 0) before_[i] = got[i];
    }

 private:
    bool is_state_;
    std::optional<double> otherwise_{};
    std::optional<double> start_{};
    std::vector<AxisRange> of_before_{};
    std::vector<double> before_{};  ///< the state after the block before
};

ProgramFinding finding_of(double got, double expected, double tolerance, double around) {
    // Nothing is expected of what is computed from NaN.
    if (std::isnan(expected) || std::isinf(tolerance)) return ProgramFinding::nothing_expected;
    if (!is_as_expected(got, expected, tolerance)) return ProgramFinding::outside;
    // Whatever is around would have passed.
    const bool tells_nothing = tolerance > 0 && tolerance >= around && around > 0;
    return tells_nothing ? ProgramFinding::not_judged : ProgramFinding::match;
}

/// Holds the tiles of all stages against what was stored, and shows them.
class Observer {
 public:
    Observer(const ProgramCall& call, const StoredTiles& stored, const ObserveProgramTile& observe)
        : stored_(stored), observe_(observe) {
        for (const ProgramArray& array : call.program.arrays) left_out_.emplace_back(call.program, array);
    }

    void take(const ProgramTile& tile, const ExpectedTile& expected) {
        got_.assign(expected.value.size(), 0);
        known_.assign(got_.size(), 0);
        findings_.assign(got_.size(), ProgramFinding::not_stored);
        if (stored_.has(tile.stage)) compare(tile, expected);
        observe_({tile, got_, findings_, expected});
    }

 private:
    void compare(const ProgramTile& tile, const ExpectedTile& expected) {
        stored_.read(tile, got_, known_);
        LeftOut& left_out = left_out_[std::size_t(tile.stage)];
        // What is around an element tells how much a tolerance of that size leaves open.
        double around = 0;
        for (const double value : expected.value) {
            if (std::isfinite(value)) around = std::max(around, std::abs(value));
        }
        for (std::size_t i = 0; i < got_.size(); ++i) {
            const bool is_missing = known_[i] == 0 && nobody_wrote(got_[i]);
            if (known_[i] == 0 && !is_missing) continue;
            findings_[i] = is_missing && left_out.may_be(tile, i, expected)
                               ? ProgramFinding::left_out
                               : finding_of(got_[i], expected.value[i], expected.error[i], around);
        }
        left_out.pass(tile, got_, known_, expected);
    }

    const StoredTiles& stored_;
    const ObserveProgramTile& observe_;
    std::vector<LeftOut> left_out_;
    std::vector<double> got_;
    std::vector<char> known_;
    std::vector<ProgramFinding> findings_;
};

}  // namespace

bool is_as_expected(double got, double expected, double tolerance) {
    return got == expected || std::abs(got - expected) <= tolerance;
}

void observe_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                     const ObserveProgramTile& observe) {
    options.stored = &stored;
    Observer observer(call, stored, observe);
    evaluate_program(call, options, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        observer.take(tile, expected);
    });
}

void observe_stage(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options, int stage,
                   const ObserveProgramTile& observe) {
    options.stored = &stored;
    Observer observer(call, stored, observe);
    evaluate_stage(call, options, stage, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        observer.take(tile, expected);
    });
}

}  // namespace tilescope
