#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "oracle/causes/same_run.h"
#include "oracle/judge/report.h"

namespace tilescope {

/// A recording that could not be judged, and the one line that says why.
struct Unjudged {
    std::string recording;
    std::string reason;
};

/// How tile-diff came out.
using Outcome = std::variant<Report, SameRun, Unjudged>;

/// A row of the table of formats.
struct ReportFormat {
    std::string_view name;
    std::string_view says;  ///< for the help
    std::string (*render)(const Outcome& outcome);
};

std::span<const ReportFormat> report_formats();

/// Null where no format has that name.
const ReportFormat* report_format(std::string_view name);

}  // namespace tilescope
