#include "oracle/report/outputs.h"

#include <fmt/format.h>

#include "dump/schema/error.h"

namespace tilescope {

ReportOutput report_output(const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return {};
    return {report_format(std::string_view(text).substr(0, equals)), text.substr(equals + 1)};
}

std::string names_of_formats() {
    std::string names;
    for (const ReportFormat& format : report_formats())
        names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", format.name, format.says);
    return names;
}

void ReportFiles::open(const std::vector<ReportOutput>& outputs) {
    for (const ReportOutput& output : outputs) {
        if (output.is_stdout() && to_stdout_ != nullptr) {
            throw Error("two reports go to stdout", "--report", "give one of them a file");
        } else if (output.is_stdout()) {
            to_stdout_ = output.format;
        } else {
            files_.emplace_back(output.format, std::make_unique<OutputFile>(output.path));
        }
    }
}

void ReportFiles::write(const Outcome& outcome, const Exhibits& exhibits) {
    for (const auto& [format, file] : files_) {
        file->write(format->render(outcome, exhibits));
        file->commit();
    }
}

}  // namespace tilescope
