#pragma once

#include <span>
#include <string>

#include "oracle/report/formats.h"

namespace tilescope {

// The JSON of many recordings: {"report_version", "verdict", "counts", "recordings": [the report of each, with "seconds" and,
// where a baseline accepts it, "known"]}. report.schema.json describes it and the report of one.

/// The report of one, with why a baseline accepts it.
std::string known_json(const std::string& report, const std::string& known);

std::string json_head(std::span<const JudgedRecording> all);
std::string json_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
std::string json_tail(std::span<const JudgedRecording> all);

}  // namespace tilescope
