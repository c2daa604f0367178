#pragma once

#include <array>
#include <string>

#include "dump/recording.h"
#include "oracle/judge.h"
#include "oracle/program/judge_recording.h"

namespace tilescope {

/// What write_npy() writes there: got, expected and difference.
std::array<std::string, 3> npy_files(const std::string& directory);

/// Writes got.npy (float32), expected.npy and difference.npy (float64) of the report's guilty stage to
/// `directory`, which is created: the head of the first divergence, shaped like its part of the dataset. NaN
/// where nothing was captured; got.npy keeps the bits of the dump. Does nothing where the report has no
/// guilty stage. Errors: Error when they cannot be written.
void write_npy(const std::string& directory, const Report& report, const Recording& recording,
               const Recording* other, JudgeOptions options);

/// The same of a stage of a declared kernel, which should hold what follows from the stored stages before it: along its axes, of a
/// state along its blocks first. got.npy has the numbers that were stored, as float32.
void write_npy(const std::string& directory, const RecordedCall& recorded, int stage);

}  // namespace tilescope
