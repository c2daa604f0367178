#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/judge/report.h"

namespace tilescope {

/// Where the tolerances come from, and what they promise.
std::string tolerance_line(const Report& report);

/// What the element holds and should hold, or what it holds in either recording.
std::string values_in(const Report& report, const Element& element);

/// One sentence: what diverges and where, or that nothing does. The last line of every report.
std::string verdict_line(const Report& report);

/// What tells a mistake from a race that leaves the same numbers.
inline constexpr std::string_view how_to_tell_a_race =
    "compare two of the same run (tile-diff --against B A --same-run, or tile-run repeat --runs N)";

/// The causes that were found for the first wrong stage, and further ones; "" where nothing was searched.
std::string causes_text(const Report& report);

/// Where the stage is hooked: "; acc is hooked at csrc/attention.cu:61"; "" where the recording does not say.
std::string hooked_text(const Report& report, Stage stage);

/// What is left to find once it is declared: "then it matches", or the cause of what is still wrong.
std::string remains_text(const Suggestion& suggestion);
/// What to declare, and what is left then; one line.
std::string suggestion_text(const Suggestion& suggestion);
/// The report's suggestion as options for tile-diff, one a line; "" where there is none.
std::string suggestion_arguments(const Report& report);
/// What it leads to, and how it is declared; or that nothing is to be declared, or gets further.
std::string suggestion_advice(const Report& report);

/// "0-63, 80" for rows in ascending order; at most `most` ranges.
std::string row_ranges(const std::vector<std::int64_t>& rows, std::size_t most);

/// Which conventions other than `declared` the rows hold that see no key.
std::vector<EmptyRow> other_empty_rows(const ReferenceOutput& output, EmptyRow declared);

/// The report for a terminal: at most 40 lines with 5 worst elements, 6 of references, 8 of causes, one for each stage that is wrong too, and 10 of
/// what a run reached that did not complete, of 110 columns but for the verdict, the references, the causes
/// and long names of tiles.
std::string to_text(const Report& report);

/// Of the JSON reports, as report.schema.json has it: members that it lists are not changed and not taken away while it stays.
inline constexpr int report_version = 1;

/// The report as JSON: verdict, first_divergence, stages, drift, references, causes and what was recorded.
/// Non-finite numbers are strings ("nan", "inf", "-inf"), since JSON has none.
std::string to_json(const Report& report);

/// The same shape for what could not be judged: verdict "unjudged" and the reason.
std::string unjudged_json(const std::string& recording, const std::string& reason);

}  // namespace tilescope
