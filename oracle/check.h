#pragma once

// What tile-diff says, for programs that ask it themselves: link tilescope::oracle.

#include <string>

#include "dump/recording.h"

namespace tilescope {

/// How a recording came out.
struct Checked {
    int exit_code = 2;   ///< of tile-diff: 0 it matches, 1 it diverges, 2 it could not be judged
    std::string report;  ///< tile-diff's text, or the one line that says why it could not be judged

    bool matches() const { return exit_code == 0; }
};

/// Judges the recording on all cores, and looks for causes and declarations where it diverges. Throws nothing that the
/// recording may cause.
Checked check(const Recording& recording);

}  // namespace tilescope
