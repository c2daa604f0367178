#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "oracle/program/evaluate.h"

namespace tilescope {

/// What a stage holds as far as it is computed: of a state one after the other, the first before the first block.
struct StoredStage {
    std::vector<int> axes{};          ///< rising
    std::vector<AxisRange> ranges{};  ///< of each
    std::vector<Numbers> states{};    ///< one, or of a state one more than there are blocks
};

/// The indices that a formula is evaluated for. An axis with none has count 0.
using AxisRanges = std::array<AxisRange, ProgramLimits::axes>;

/// Evaluates formulas of one stage.
class Formulas {
 public:
    Formulas(const ProgramCall& call, const std::vector<const StoredStage*>& stored, int stage,
             const SumModel& model)
        : call_(call), stored_(stored), stage_(stage), model_(model) {}

    /// In block `block` of the axis that the stage goes over.
    Numbers at(int node, const AxisRanges& ranges, std::int64_t block) {
        block_ = block;
        return value(node, ranges);
    }

    /// With those of the axes that a sum or a maximum goes along.
    AxisRanges ranges_within(const ProgramNode& reduction, AxisRanges ranges, std::int64_t block) const;

 private:
    Numbers value(int number, const AxisRanges& ranges) const;
    Numbers read(const ProgramNode& node, const AxisRanges& ranges) const;
    Numbers number_of_state(const ProgramNode& node, const AxisRanges& ranges) const;
    std::optional<Numbers> read_straight(const ProgramNode& node, const AxisRanges& ranges) const;
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
    std::int64_t block_ = 0;
};

}  // namespace tilescope
