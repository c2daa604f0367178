#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "oracle/program/evaluate.h"
#include "oracle/program/numbers.h"

namespace tilescope {

/// The indices that a formula is evaluated for. An axis with none has count 0.
using AxisRanges = std::array<AxisRange, ProgramLimits::axes>;

/// Numbers of the nodes that no rewrite changes, for one part of a call: the same for each rewrite that is replayed there.
class RememberedNumbers {
 public:
    /// Of a node of a stage's formula, with the ranges of all axes and the block; null: not computed yet.
    const Numbers* find(int stage, int node, const AxisRanges& ranges, std::int64_t block) const {
        const auto found = numbers_.find({stage, node, block, ranges});
        return found == numbers_.end() ? nullptr : &found->second;
    }
    /// No more than there is room for.
    void keep(int stage, int node, const AxisRanges& ranges, std::int64_t block, const Numbers& numbers) {
        if (size_ + numbers.size() > most_elements) return;
        size_ += numbers.size();
        numbers_.emplace(Key{stage, node, block, ranges}, numbers);
    }

 private:
    static constexpr std::int64_t most_elements = 1 << 18;
    using Key = std::tuple<int, int, std::int64_t, AxisRanges>;

    std::map<Key, Numbers> numbers_{};
    std::int64_t size_ = 0;
};

/// Which nodes are steady, and where their numbers are.
struct NumbersMemory {
    const std::vector<char>* steady = nullptr;  ///< of each node; of those that are not there, none
    RememberedNumbers* numbers = nullptr;

    bool holds(int node) const {
        return numbers != nullptr && std::size_t(node) < steady->size() && (*steady)[std::size_t(node)] != 0;
    }
};

}  // namespace tilescope
