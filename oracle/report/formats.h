#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/report/judged.h"

namespace tilescope {

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
    std::string known;  ///< why a baseline accepts how it diverges; empty: none does
};

/// A row of the table of formats. A report of many recordings is a head, a part for each of them in their order, and a
/// tail; that of one is the same, or what `alone` makes of it.
struct ReportFormat {
    std::string_view name;
    std::string_view says;  ///< for the help
    std::string (*head)(std::span<const JudgedRecording> all);
    std::string (*part)(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits);
    std::string (*tail)(std::span<const JudgedRecording> all);
    std::string_view between;  ///< parts
    std::string (*alone)(const Outcome& outcome, const Exhibits& exhibits) = nullptr;
    bool has_pictures = false;
};

std::span<const ReportFormat> report_formats();

/// Null where no format has that name.
const ReportFormat* report_format(std::string_view name);

/// The whole report of one recording.
std::string render_alone(const ReportFormat& format, const JudgedRecording& judged, const Outcome& outcome,
                         const Exhibits& exhibits);

}  // namespace tilescope
