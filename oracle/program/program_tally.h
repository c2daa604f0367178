#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "oracle/program/judge_program.h"

namespace tilescope {

/// Counts what is found of a stage, tile by tile.
class ProgramTally {
 public:
    /// `marks`: whether it is asked afterwards which elements were outside. The call must outlive it.
    ProgramTally(const ProgramCall& call, int stage, bool marks)
        : call_(call), stage_(stage), marks_(marks) {}

    void take(const ObservedProgramTile& observed);
    void take(const MatchingProgramTile& matching);
    /// Whether the i-th element of the tile was outside.
    bool was_outside(const ProgramTile& tile, std::size_t i) const {
        return !outside_.empty() && outside_[number_of(tile, i)];
    }

    StageVerdict verdict;
    /// Elements outside as the loop comes to them, the first one: how many blocks it went through before.
    std::int64_t first_outside = std::numeric_limits<std::int64_t>::max();

 private:
    void count(const ObservedProgramTile& observed, std::size_t i);
    void keep(ProgramElement element);
    void sample(const ProgramElement& element);
    void mark(const ProgramTile& tile, std::size_t i);
    std::size_t number_of(const ProgramTile& tile, std::size_t i) const;

    const ProgramCall& call_;
    int stage_;
    bool marks_;
    std::vector<bool> outside_;  ///< of all elements, from the first one outside on
    std::int64_t sampled_ = 0;
    std::int64_t every_ = 1;
};

/// Of each array of the program.
std::vector<ProgramTally> tallies_for(const ProgramCall& call, bool marks);

/// The first of those that are wrong, in the order of the program. One that takes the state of a later stage, from the block before,
/// comes after that where it was wrong in an earlier block. -1: none is.
int first_wrong_of(const Program& program, const std::vector<ProgramTally>& tallies);

/// Holds all of it against what the inputs alone give, and adds that to the report. `local`: the tallies that the report is of, with marks.
void judge_end_to_end(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                      const std::vector<ProgramTally>& local, ProgramReport& report);

}  // namespace tilescope
