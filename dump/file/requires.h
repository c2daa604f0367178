#pragma once

// The attribute `requires` of a recording: declarations without which it would be misunderstood.

#include "dump/file/check.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Errors: Error naming the declarations that this program does not know, and for an attribute that is no
/// list of text. Every program that reads a recording passes here before it reads anything of what is
/// declared.
void check_requires(const InputFile& file);

/// Lists the units that have another value than their default and that not every reader of version 1 knows;
/// writes nothing where there are none. Errors: Failure.
void write_requires(hid_t file, const Units& units);

}  // namespace tilescope::hdf5
