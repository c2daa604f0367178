#pragma once

// The group /capture: what was asked for, and what was lost or seen twice; and which hooks recorded a stage, at its dataset.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "dump/file/check.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Counts of one stage that the writer takes while it writes.
struct StageCounts {
    std::int64_t tiles_selected = 0;
    std::int64_t tiles_written = 0;
    std::int64_t elements_unwritten = 0;  ///< in tiles that were written, padding not counted
};
using CaptureCounts = std::array<StageCounts, stage_count>;

/// Reads /capture; the default summary when there is none. `tiles_stored` is what each stage's dataset holds,
/// and must be what /capture says was written.
/// Errors: Error for an invalid selection, a tile outside the problem, and counts that contradict each other.
CaptureSummary read_capture(const InputFile& file, const Problem& problem,
                            const std::array<std::int64_t, stage_count>& tiles_stored);

/// Which hooks recorded the stage: an attribute of its dataset; nothing where there is none. Errors: Error for what is no line of a
/// file below a project, and for too many.
std::vector<SourceLine> read_stage_hooks(hid_t dataset, const std::string& where);
/// Errors: Failure.
void write_stage_hooks(hid_t dataset, std::span<const SourceLine> hooks);

/// Writes the stages that the direction has. Errors: Failure.
void write_capture(hid_t file, const Problem& problem, const CaptureSummary& capture,
                   const CaptureCounts& counts);

}  // namespace tilescope::hdf5
