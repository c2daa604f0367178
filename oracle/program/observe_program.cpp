#include "oracle/program/observe_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "oracle/program/element_kernels.h"

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
    LeftOut(const Program& program, const ProgramArray& stage, bool from_inputs)
        : is_state_(stage.over >= 0), from_inputs_(from_inputs) {
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
    void pass(const ProgramTile& tile, const Reals& got, const std::vector<char>& known,
              const ExpectedTile& expected) {
        if (!is_state_) return;
        of_before_ = tile.indices;
        before_ = expected.value;
        if (from_inputs_) return;
        for (std::size_t i = 0; i < got.size(); ++i)
            if (known[i] != 0) before_[i] = got[i];
    }

 private:
    bool is_state_;
    bool from_inputs_;
    std::optional<double> otherwise_{};
    std::optional<double> start_{};
    std::vector<AxisRange> of_before_{};
    Reals before_{};  ///< the state after the block before
};

ProgramFinding finding_of(double got, double expected, double tolerance, double around) {
    // Nothing is expected of what is computed from NaN.
    if (std::isnan(expected) || std::isinf(tolerance)) return ProgramFinding::nothing_expected;
    if (!is_as_expected(got, expected, tolerance)) return ProgramFinding::outside;
    // Whatever is around would have passed.
    const bool tells_nothing = tolerance > 0 && tolerance >= around && around > 0;
    return tells_nothing ? ProgramFinding::not_judged : ProgramFinding::match;
}

std::vector<ProgramFinding> findings_of(const ProgramTile& tile, const Reals& got,
                                        const std::vector<char>& known, const ExpectedTile& expected,
                                        const LeftOut& left_out) {
    std::vector<ProgramFinding> findings(got.size(), ProgramFinding::not_stored);
    // What is around an element tells how much a tolerance of that size leaves open.
    double around = 0;
    for (const double value : expected.value) {
        if (std::isfinite(value)) around = std::max(around, std::abs(value));
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
        const bool is_missing = known[i] == 0 && nobody_wrote(got[i]);
        if (known[i] == 0 && !is_missing) continue;
        findings[i] = is_missing && left_out.may_be(tile, i, expected)
                          ? ProgramFinding::left_out
                          : finding_of(got[i], expected.value[i], expected.error[i], around);
    }
    return findings;
}

/// Holds the tiles of all stages against what was stored, and shows them.
class Observer {
 public:
    Observer(const ProgramCall& call, const StoredTiles& stored, const ProgramOptions& options,
             const ObserveProgramTile& observe)
        : stored_(stored), observe_(observe) {
        for (const ProgramArray& array : call.program.arrays)
            left_out_.emplace_back(call.program, array, options.from_inputs);
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
        findings_ = findings_of(tile, got_, known_, expected, left_out);
        left_out.pass(tile, got_, known_, expected);
    }

    const StoredTiles& stored_;
    const ObserveProgramTile& observe_;
    std::vector<LeftOut> left_out_;
    Reals got_;
    std::vector<char> known_;
    std::vector<ProgramFinding> findings_;
};

/// Holds the tiles of one part against what was stored, and keeps those that do not match wholly.
class HeldPart final : public PartObserver {
 public:
    HeldPart(const ProgramCall& call, const StoredTiles& stored, const ProgramOptions& options,
             const ObserveProgramTile& observe,
             const std::function<void(const MatchingProgramTile&)>& observe_matching)
        : stored_(stored), observe_(observe), observe_matching_(observe_matching) {
        for (const ProgramArray& array : call.program.arrays)
            left_out_.emplace_back(call.program, array, options.from_inputs);
    }

    void take(const ProgramTile& tile, ExpectedTile expected) override {
        Held held{tile, std::move(expected), {}, {}, {}};
        held.got.resize(held.expected.value.size());
        std::vector<char> known(held.got.size(), 0);
        stored_.read(tile, held.got, known);
        if (!matches(held, known))
            held.findings =
                findings_of(tile, held.got, known, held.expected, left_out_[std::size_t(tile.stage)]);
        left_out_[std::size_t(tile.stage)].pass(tile, held.got, known, held.expected);
        if (held.findings.empty()) {
            for (Reals* const reals : {&held.got, &held.expected.value, &held.expected.error})
                reals->forget();
        }
        held_.push_back(std::move(held));
    }

    void finish() override {
        for (const Held& held : held_) {
            if (held.findings.empty())
                observe_matching_(held.matching);
            else
                observe_({held.tile, held.got, held.findings, held.expected});
        }
    }

 private:
    struct Held {
        ProgramTile tile;
        ExpectedTile expected;
        Reals got;
        std::vector<ProgramFinding> findings;  ///< none: it matches
        MatchingProgramTile matching;
    };

    static bool matches(Held& held, const std::vector<char>& known) {
        const auto size = std::int64_t(known.size());
        if (std::memchr(known.data(), 0, known.size()) != nullptr) return false;
        const HeldElements all = element_kernels().held(
            held.got.data(), {held.expected.value.data(), held.expected.error.data()}, size);
        const bool tells = all.largest_tolerance == 0 || all.largest_expected == 0 ||
                           all.largest_tolerance < all.largest_expected;
        held.matching = {held.tile.stage, size, all.largest_difference, all.budget_used};
        return all.is_plain && tells;
    }

    const StoredTiles& stored_;
    const ObserveProgramTile& observe_;
    const std::function<void(const MatchingProgramTile&)>& observe_matching_;
    std::vector<LeftOut> left_out_;
    std::vector<Held> held_;
};

}  // namespace

bool is_as_expected(double got, double expected, double tolerance) {
    return got == expected || std::abs(got - expected) <= tolerance;
}

void observe_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                     const ObserveProgramTile& observe) {
    options.stored = options.from_inputs ? nullptr : &stored;
    Observer observer(call, stored, options, observe);
    evaluate_program(call, options, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        observer.take(tile, expected);
    });
}

void observe_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                     const ObserveProgramTile& observe,
                     const std::function<void(const MatchingProgramTile&)>& observe_matching) {
    options.stored = options.from_inputs ? nullptr : &stored;
    options.shown = &stored;
    const std::function<std::unique_ptr<PartObserver>()> make = [&] {
        return std::make_unique<HeldPart>(call, stored, options, observe, observe_matching);
    };
    evaluate_program(call, options, make);
}

void observe_stage(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options, int stage,
                   const ObserveProgramTile& observe) {
    options.stored = options.from_inputs ? nullptr : &stored;
    Observer observer(call, stored, options, observe);
    evaluate_stage(call, options, stage, [&](const ProgramTile& tile, const ExpectedTile& expected) {
        observer.take(tile, expected);
    });
}

}  // namespace tilescope
