#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "dump/schema.h"
#include "oracle/ranks/rank_report.h"

namespace tilescope {

/// How a recording of a run came out.
enum class PartState : std::uint8_t {
    not_judged,
    right,
    inherited,   ///< its outputs are wrong, and right from what the rank merged
    wrong_too,   ///< by itself, and not the first
    first_wrong  ///< in the order of the report's faults
};
PartState state_of(const RankReport& report, std::size_t part);

/// The largest |got - expected| / tolerance of what was compared of it.
double worst_of(const RankReport& report, std::size_t part);

/// Ranks down, steps across: the steps that any rank recorded, and what the ranks have at the end.
class RankGrid {
 public:
    RankGrid() = default;
    RankGrid(std::int64_t ranks, std::span<const Shard> parts);

    std::int64_t ranks() const { return ranks_; }
    std::int64_t columns() const { return std::int64_t(steps_.size()) + (has_final_ ? 1 : 0); }
    std::span<const std::int64_t> steps() const { return steps_; }
    /// Whether the last column is that of the end.
    bool has_final() const { return has_final_; }
    /// Of the parts given; nullopt where there is no recording.
    std::optional<std::size_t> part_at(std::int64_t rank, std::int64_t column) const;
    /// Where a part stands; nullopt for what a rank owns, which is no step.
    std::optional<std::int64_t> column_of(const Shard& shard) const;
    /// Whether the rank has steps and all of them lie before the column.
    bool ends_before(std::int64_t rank, std::int64_t column) const;

 private:
    std::int64_t ranks_ = 0;
    std::vector<std::int64_t> steps_;  ///< ascending
    bool has_final_ = false;
    std::map<std::pair<std::int64_t, std::int64_t>, std::size_t> parts_;  ///< by rank and column
};

/// The shards of its parts.
RankGrid grid_of(const RankReport& report);

}  // namespace tilescope
