#pragma once

#include <string>
#include <vector>

#include "dump/schema.h"
#include "kernels/run/repeat_runs.h"

namespace tilescope {

/// One of the recordings that a program leaves, over all its runs.
struct RepeatedRecording {
    std::string name;  ///< of its file, less the process
    Problem problem;
    RepeatReport report;
};

/// Runs of any program whose captures honour TILESCOPE_DIR.
struct ProgramRepeat {
    std::string command;
    int runs = 0;
    std::vector<RepeatedRecording> recordings;

    bool is_repeatable() const;
};

/// Runs the program `runs` times, at least twice, each with a TILESCOPE_DIR of its own that is removed afterwards, and
/// compares the recordings of each run with those of the first, bit by bit.
/// Errors: Error for a program that cannot be started or fails, that leaves no recording or not the same ones in each
/// run, and where the inputs of two runs differ: then nothing can be told.
ProgramRepeat repeat_program(const std::vector<std::string>& command, int runs);

}  // namespace tilescope
