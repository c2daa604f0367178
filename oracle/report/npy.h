#pragma once

#include <array>
#include <string>

#include "dump/recording.h"
#include "oracle/judge.h"

namespace tilescope {

/// What write_npy() writes there: got, expected and difference.
std::array<std::string, 3> npy_files(const std::string& directory);

/// Writes got.npy (float32), expected.npy and difference.npy (float64) of the report's guilty stage to
/// `directory`, which is created: the head of the first divergence, shaped like its part of the dataset. NaN
/// where nothing was captured; got.npy keeps the bits of the dump. Does nothing where the report has no
/// guilty stage. Errors: Error when they cannot be written.
void write_npy(const std::string& directory, const Report& report, const Recording& recording,
               const Recording* other, JudgeOptions options);

}  // namespace tilescope
