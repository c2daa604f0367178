#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "oracle/program/evaluate.h"

namespace tilescope {

/// How what a kernel stored compares with what is expected of it.
enum class ProgramFinding : std::uint8_t {
    not_stored,        ///< or not recorded: there is nothing to compare
    left_out,          ///< nobody wrote it, and the kernel may leave it out: it is held against nothing
    nothing_expected,  ///< it is computed from NaN, or its tolerance is infinite
    not_judged,        ///< within a tolerance as large as everything that is expected around it
    match,
    outside,  ///< not within its tolerance, or nobody wrote it: nobody_wrote(got)
};

/// A tile of a stage beside what it should hold, row-major.
struct ObservedProgramTile {
    const ProgramTile& tile;
    const Reals& got;
    const std::vector<ProgramFinding>& findings;
    const ExpectedTile& expected;
};
using ObserveProgramTile = std::function<void(const ObservedProgramTile&)>;

/// A tile of a stage of which all was stored, and is within tolerances that say something.
struct MatchingProgramTile {
    int stage = -1;
    std::int64_t elements = 0;
    double largest_difference = 0;
    double budget_used = 0;
};

/// Shows each tile of each stage that was stored. Those that match wholly are shown as one.
void observe_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                     const ObserveProgramTile& observe,
                     const std::function<void(const MatchingProgramTile&)>& observe_matching);
/// Shows each tile of each stage, those that were not stored among them, as evaluate_program() comes to them. `options.stored` is
/// not asked.
void observe_program(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options,
                     const ObserveProgramTile& observe);
/// The same of one stage.
void observe_stage(const ProgramCall& call, const StoredTiles& stored, ProgramOptions options, int stage,
                   const ObserveProgramTile& observe);

/// Whether an element agrees with what is expected of it.
bool is_as_expected(double got, double expected, double tolerance);

}  // namespace tilescope
