#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// A picture as a PNG file.
struct ReportPicture {
    std::string caption;
    std::string png;
    int width = 0;
    int height = 0;
};

/// What is shown beside how it came out, in formats that have room for it.
struct Exhibits {
    std::string command;  ///< that wrote the report, as a shell takes it
    std::vector<ReportPicture> pictures;
};

/// A row of the table of formats.
struct ReportFormat {
    std::string_view name;
    std::string_view says;  ///< for the help
    std::string (*render)(const Outcome& outcome, const Exhibits& exhibits);
    bool has_pictures = false;
};

std::span<const ReportFormat> report_formats();

/// Null where no format has that name.
const ReportFormat* report_format(std::string_view name);

}  // namespace tilescope
