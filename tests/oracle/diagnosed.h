#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "oracle/causes/find_causes.h"
#include "tests/oracle/recording_tools.h"

namespace tilescope::test {

/// The report with the causes that a search finds within so much work: no part of it fails, and unbounded it is whole.
inline Report diagnosed(const Recording& recording, std::int64_t effort = usual_effort) {
    Report report = judged(recording);
    CauseOptions options;
    options.threads = 1;
    options.effort = effort;
    report.diagnosis = find_causes(recording, report, options);
    EXPECT_EQ(report.diagnosis.end.failed, std::vector<std::string>());
    EXPECT_TRUE(effort != Effort::unbounded || report.diagnosis.end.is_whole());
    return report;
}

/// The causes that none is better than.
inline std::vector<FoundCause> first_causes(const Report& report) {
    std::vector<FoundCause> first;
    for (const FoundCause& cause : report.diagnosis.causes) {
        if (cause.rank == 1) first.push_back(cause);
    }
    return first;
}

}  // namespace tilescope::test
