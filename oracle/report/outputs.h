#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "oracle/report/formats.h"
#include "oracle/report/output_file.h"

namespace tilescope {

/// A report and where it goes.
struct ReportOutput {
    const ReportFormat* format = nullptr;
    std::string path;

    bool is_stdout() const { return path == "-"; }
};

/// Of NAME=FILE; no format where that is none.
ReportOutput report_output(const std::string& text);

/// "text (what is printed), json (for programs)"
std::string names_of_formats();

/// Files that appear whole once they are written, or not at all.
class ReportFiles {
 public:
    /// Errors: Error where a file cannot be there, or two reports go to stdout.
    void open(const std::vector<ReportOutput>& outputs);
    /// Errors: Error where one cannot be written.
    void write(const Outcome& outcome, const Exhibits& exhibits);
    /// The report that takes the place of what is printed; null for none.
    const ReportFormat* to_stdout() const { return to_stdout_; }

 private:
    std::vector<std::pair<const ReportFormat*, std::unique_ptr<OutputFile>>> files_;
    const ReportFormat* to_stdout_ = nullptr;
};

}  // namespace tilescope
