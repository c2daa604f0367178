#pragma once

#include <string>

#include "dump/recording/program_recording.h"

namespace tilescope {

/// Whether a file holds a declared kernel. False, too, where it cannot be opened: whoever opens it says why.
bool holds_program(const std::string& path);

/// Reads a declared kernel that is kept in a file; dump/FORMAT.md describes it. Shapes are those of the file: whether they are
/// what the text asks for is found by who judges them.
/// Errors: Error for whatever is not a complete, valid file of a declared kernel, before its arrays are read.
ProgramRecording read_program_recording(const std::string& path);

/// Writes one to `path`, whole or not at all. Numbers of a stage may be of a narrower type than the text declares.
/// Errors: Error for a text that is no program, arrays and sizes that it does not declare, an input that is missing, another
/// element type than declared; and where the file cannot be written. Nothing is left behind then.
void write_program_recording(const std::string& path, const ProgramRecording& recording);

}  // namespace tilescope
