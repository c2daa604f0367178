#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/report/judged.h"

namespace tilescope {

/// A divergence that is accepted: a section of a baseline.
struct KnownDivergence {
    std::string recording;  ///< the end of its path, by whole names
    std::string stage;      ///< first wrong one
    std::string place;      ///< of its first wrong element; empty: wherever it is
    std::string cause;      ///< empty: whatever it is
    std::string wrong_too;  ///< further stages that diverge by themselves
    std::string reason;     ///< why it is accepted
    std::size_t first_line = 0;
    std::size_t last_line = 0;
};

/// Known divergences, as a file has them; oracle/README.md describes it.
struct Baseline {
    std::string path;
    std::vector<KnownDivergence> known;
};

/// Errors: Error, with the line, where the text is none.
Baseline parse_baseline(const std::string& path, std::string_view text);
/// Errors: the same, and Error where the file cannot be read. An empty path is a baseline that knows nothing.
Baseline read_baseline(const std::string& path);

/// The section that accepts how the recording diverges; null where none does, or it does not diverge.
const KnownDivergence* find_known(const Baseline& baseline, const JudgedRecording& judged);

/// What the baseline says that is no longer so: lines that name its own lines. `all`: the recordings that were judged.
std::vector<std::string> outdated_lines(const Baseline& baseline, std::span<const JudgedRecording> all);

/// A baseline of everything that diverges, with the reasons that `before` has. Errors: Error for a name with line ends.
std::string baseline_text(std::span<const JudgedRecording> all, const Baseline& before);

}  // namespace tilescope
