#pragma once

// What declares named tiles: attribute `named_tiles` of /problem, and attributes of each one's dataset.

#include "dump/file/check.h"
#include "dump/schema.h"

namespace tilescope::hdf5 {

/// Adds the named tiles that the file declares to the problem. Errors: Error for names, axes and sizes that
/// are not valid, and for one without a dataset.
void read_named_tiles(const InputFile& file, Problem& problem);

/// Each writes the same. The axes of a stage of attention are known: nothing is written. Errors: Failure.
void write_named_tiles(hid_t problem_group, const Problem& problem);
void write_named_axes(hid_t dataset, const Problem& problem, Stage stage);

}  // namespace tilescope::hdf5
