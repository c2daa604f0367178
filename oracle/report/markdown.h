#pragma once

#include <span>
#include <string>

#include "oracle/report/formats.h"

namespace tilescope {

// For the comment of a pull request: a table of the recordings, then the report of each that does not match, folded.
// Source: GitHub Flavored Markdown; GitLab and Gitea read the same.

std::string markdown_head(std::span<const JudgedRecording> all);
std::string markdown_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
std::string markdown_tail(std::span<const JudgedRecording> all);

}  // namespace tilescope
