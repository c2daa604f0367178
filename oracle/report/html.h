#pragma once

#include <span>
#include <string>
#include <string_view>

#include "oracle/report/formats.h"

namespace tilescope {

/// A page that needs nothing but itself: no scripts, fonts, styles or pictures from elsewhere. It says what the text says, and
/// shows the exhibits.
std::string to_html(const Outcome& outcome, const Exhibits& exhibits);

// The same of many recordings: a table of them, and what the page of each has, folded.
std::string html_head(std::span<const JudgedRecording> all);
std::string html_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
std::string html_tail(std::span<const JudgedRecording> all);

/// The page's style, for light and dark screens and for paper.
extern const std::string_view html_style;

}  // namespace tilescope
