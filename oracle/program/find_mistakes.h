#pragma once

#include <string>
#include <vector>

#include "oracle/program/judge_program.h"

namespace tilescope {

/// What a kernel computed in place of a formula, so that what it stored is as expected.
struct ProgramMistake {
    int stage = -1;         ///< array: whose formula it is
    std::string slot{};     ///< what stands otherwise in it: "index", "factor", "term", "guard", ...
    std::string becomes{};  ///< the formula that explains it
    std::string where{};    ///< condition that the elements meet in which it is so; empty: in all
    double explained = 0;   ///< share of the elements looked at that are as expected by it
    double healthy = 0;     ///< share that is as expected by the program
    double bits = 0;        ///< length of the description

    bool operator==(const ProgramMistake&) const = default;
};

/// The shortest of them, those that are as good beside it; none where nothing was wrong, or nothing explains it.
/// It replays parts of the call: rows and columns around elements that are wrong, and around others.
std::vector<ProgramMistake> find_mistakes(const ProgramCall& call, const StoredTiles& stored,
                                          const ProgramReport& report, ProgramOptions options = {});

}  // namespace tilescope
