#pragma once

// The attribute `requires` of a recording: declarations without which it would be misunderstood.

#include "dump/file/check.h"
#include "dump/recording.h"

namespace tilescope::hdf5 {

/// Errors: Error naming the declarations that this program does not know, and for an attribute that is no
/// list of text. Every program that reads a recording passes here before it reads anything of what is
/// declared.
void check_requires(const InputFile& file);

/// Lists what has another value than its default and is not known to every reader of version 1; writes nothing
/// where there is nothing. Errors: Failure.
void write_requires(hid_t file, const Problem& problem, const Units& units);

}  // namespace tilescope::hdf5
