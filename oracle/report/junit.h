#pragma once

#include <span>
#include <string>

#include "oracle/report/formats.h"

namespace tilescope {

// JUnit's XML as CI servers read it: a test case for each recording. What diverges is a failure, what could not be
// judged an error, what a baseline accepts is skipped. Source: junit-10.xsd of Jenkins' xUnit plugin, with the properties
// of a test case as pytest writes them.

std::string junit_head(std::span<const JudgedRecording> all);
std::string junit_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
std::string junit_tail(std::span<const JudgedRecording> all);

}  // namespace tilescope
