#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/program/evaluate.h"
#include "oracle/program/remembered.h"

namespace tilescope {

/// What a stage holds as far as it is computed: of a state one after the other, the first before the first block.
struct StoredStage {
    std::vector<int> axes{};          ///< rising
    std::vector<AxisRange> ranges{};  ///< of each
    std::vector<Numbers> states{};    ///< one, or of a state one more than there are blocks
};

/// What rounds in a program: a node of a formula, or what a stage is stored in.
constexpr int store_of(int stage) {
    return -1 - stage;
}
constexpr int stage_of_store(int store) {
    return -1 - store;
}

/// Sees what operations come to, and may take their roundings away: which of them a tolerance comes from. Nodes that are computed in
/// one with what they stand in, as the difference in exp(x - y), are not shown.
class OperationWatch {
 public:
    virtual ~OperationWatch() = default;
    /// Whether a cast rounds, or leaves what it is given.
    virtual bool rounds(int operation) const = 0;
    /// `block`: of the axis that a stage goes over, or -1; 0 where it is a node.
    virtual void pass(int operation, const AxisRanges& ranges, std::int64_t block, Numbers& numbers) = 0;
};

/// Evaluates formulas of one stage.
class Formulas {
 public:
    /// `watch`: null where nobody watches, and then alone numbers may be remembered.
    Formulas(const ProgramCall& call, const std::vector<const StoredStage*>& stored, int stage,
             const SumModel& model, OperationWatch* watch = nullptr, const NumbersMemory& memory = {})
        : call_(call), stored_(stored), stage_(stage), model_(model), watch_(watch), memory_(memory) {}

    /// In block `block` of the axis that the stage goes over.
    Numbers at(int node, const AxisRanges& ranges, std::int64_t block) {
        block_ = block;
        return value(node, ranges);
    }

    /// With those of the axes that a sum or a maximum goes along.
    AxisRanges ranges_within(const ProgramNode& reduction, AxisRanges ranges, std::int64_t block) const;

 private:
    Numbers value(int number, const AxisRanges& ranges) const;
    Numbers watched(int number, const AxisRanges& ranges, Numbers numbers) const;
    Numbers computed(int number, const AxisRanges& ranges) const;
    Numbers read(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers number_of_state(const ProgramNode& node, const AxisRanges& ranges) const;
    std::optional<Numbers> read_straight(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers chosen_of(const ProgramNode& node, const AxisRanges& ranges) const;
    std::optional<Numbers> chosen_in_part(const ProgramNode& node, const Numbers& condition,
                                          const AxisRanges& ranges) const;
    std::optional<Numbers> stage_straight(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers call(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers of_two(const ProgramNode& node, const AxisRanges& ranges) const;
    bool is_of_state(int number) const;
    bool begins_with_state(const ProgramNode& sum, int state) const;
    Numbers in_type_of_state(const ProgramNode& node, Numbers numbers, std::size_t operations) const;
    Numbers sum_of_addends(const std::vector<Numbers>& addends) const;
    void addends_of(int number, bool is_negative, const AxisRanges& ranges,
                    std::vector<Numbers>& addends) const;
    std::vector<Numbers> addends_of(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers along(const ProgramNode& node, AxisRanges ranges, const Numbers* start = nullptr) const;
    void factors_of(int number, const AxisRanges& ranges, std::vector<Numbers>& factors) const;

    const ProgramCall& call_;
    const std::vector<const StoredStage*>& stored_;  ///< of each array; inputs have none
    int stage_;
    SumModel model_;
    OperationWatch* watch_;
    NumbersMemory memory_;
    std::int64_t block_ = 0;
};

}  // namespace tilescope
