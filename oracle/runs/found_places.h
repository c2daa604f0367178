#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "oracle/judge/diagnosis.h"
#include "oracle/judge/report.h"
#include "oracle/runs/wrong_threads.h"

namespace tilescope {

/// The name of elements that were written again with other values. Unlike other structural causes it says
/// more than a place, so it is told beside them.
inline constexpr std::string_view racing_name = "racing";
/// That of tiles that are not there. Beside it no values are wrong.
inline constexpr std::string_view skipped_name = "tile_skipped";
/// What is found has its name, and no words.
FoundCause racing(const Report& report, const SeenTiles& evidence);

/// Each wrong element of a few; rows that hold NaN alone, and rows that no thread wrote. "one NaN at batch 0,
/// head 0, row 3, column 5".
std::vector<std::string> places_told(const Report& report, const SeenTiles& evidence);

/// Which elements diverge, where no replay knows what they hold: the simplest pattern that holds nearly all
/// of them and nearly nothing else. `threads` are those of wrong_threads(). Empty where there is none.
std::vector<FoundCause> found_places(const Recording& recording, const Report& report,
                                     const SeenTiles& evidence, const std::optional<WrongThreads>& threads);

/// Where something is, in words.
struct PlaceTold {
    std::string text;       ///< "head 1, KV tile 2-3"
    bool is_vague = false;  ///< the words do not tell which tiles or rows
};

/// Of what diverges in `report`.
PlaceTold where_of(const SeenTiles& evidence, const Report& report, bool rows_alone);

}  // namespace tilescope
