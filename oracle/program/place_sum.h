#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "oracle/program/votes.h"

namespace tilescope {

/// A number added up from those of a place, each times a whole number, as leading dimensions and tiles that are counted by the
/// row have it.
class PlaceSum {
 public:
    /// By least squares, from places that vote for one number alone; nullopt where too many of the others vote otherwise. `nodes`:
    /// of the program, that may be added up as well.
    static std::optional<PlaceSum> fitted(const ProgramCall& call, std::span<const Vote> votes,
                                          std::vector<PlaceNumber> numbers, std::vector<int> nodes);

    std::int64_t at(const AxisIndices& place) const;
    /// Added to another one, or to none, -1.
    int node(ProgramBuilder& build, int to) const;
    double bits() const;

 private:
    PlaceSum(const ProgramCall& call, std::vector<PlaceNumber> numbers, std::vector<int> nodes)
        : call_(call), numbers_(std::move(numbers)), nodes_(std::move(nodes)) {}

    std::size_t terms() const { return numbers_.size() + nodes_.size(); }
    double term_at(std::size_t k, const AxisIndices& place) const;
    bool is_index(std::size_t k) const;
    int factor_node(ProgramBuilder& build, std::int64_t factor) const;
    bool is_block_long(std::size_t k) const;

    const ProgramCall& call_;
    std::vector<PlaceNumber> numbers_;
    std::vector<int> nodes_;
    std::vector<std::int64_t> factors_;  ///< of the numbers, of the nodes, and what is added
};

/// The numbers that an index may be a sum of: of axes that are cut what is counted within blocks, then their block.
std::vector<PlaceNumber> summands(const Program& program, const std::vector<int>& axes,
                                  const std::vector<int>& by_block);

}  // namespace tilescope
