#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "oracle/report/judged.h"

namespace tilescope {

/// How a list of recordings is laid out: verdict, recording, stage, cause and seconds.
struct ListLayout {
    std::size_t recording = 0;  ///< columns for it
    std::size_t cause = 0;
    bool colour = false;
};

/// Of so many columns altogether, with recordings of at most so many.
ListLayout list_layout(std::size_t columns, std::size_t longest_recording, bool colour);

/// Columns that the text takes in a terminal, as far as one takes one a character.
std::size_t columns_of(std::string_view text);

/// One line. A recording that is too long loses its beginning, a cause its end.
std::string list_line(const JudgedRecording& judged, const ListLayout& layout);

/// All of them, 80 columns wide.
std::string list_text(std::span<const JudgedRecording> all);

}  // namespace tilescope
