#include "oracle/report/formats.h"

#include <algorithm>

#include "oracle/report/html.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

std::string render(const Outcome& outcome, std::string (*report)(const Report&),
                   std::string (*runs)(const SameRun&), std::string (*unjudged)(const Unjudged&)) {
    if (const auto* judged = std::get_if<Report>(&outcome)) return report(*judged);
    if (const auto* compared = std::get_if<SameRun>(&outcome)) return runs(*compared);
    return unjudged(std::get<Unjudged>(outcome));
}

std::string as_text(const Outcome& outcome, const Exhibits&) {
    return render(outcome, to_text, to_text, [](const Unjudged& of) { return of.reason + "\n"; });
}

std::string as_json(const Outcome& outcome, const Exhibits&) {
    return render(outcome, to_json, to_json,
                  [](const Unjudged& of) { return unjudged_json(of.recording, of.reason); });
}

constexpr ReportFormat formats[] = {
    {"text", "what is printed", as_text},
    {"json", "for programs", as_json},
    {"html", "one page with pictures", to_html, true},
};

}  // namespace

std::span<const ReportFormat> report_formats() {
    return formats;
}

const ReportFormat* report_format(std::string_view name) {
    const auto found = std::ranges::find(formats, name, &ReportFormat::name);
    return found == std::end(formats) ? nullptr : found;
}

}  // namespace tilescope
