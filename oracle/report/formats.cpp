#include "oracle/report/formats.h"

#include <algorithm>

#include "oracle/report/html.h"
#include "oracle/report/json_list.h"
#include "oracle/report/junit.h"
#include "oracle/report/list.h"
#include "oracle/report/markdown.h"
#include "oracle/report/program.h"
#include "oracle/report/ranks.h"
#include "oracle/report/sarif.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

/// A renderer of each kind of outcome.
struct Renderers {
    std::string (*report)(const Report&);
    std::string (*runs)(const SameRun&);
    std::string (*ranks)(const RankReport&);
    std::string (*program)(const JudgedProgram&);
    std::string (*unjudged)(const Unjudged&);

    std::string operator()(const Report& of) const { return report(of); }
    std::string operator()(const SameRun& of) const { return runs(of); }
    std::string operator()(const RankReport& of) const { return ranks(of); }
    std::string operator()(const JudgedProgram& of) const { return program(of); }
    std::string operator()(const Unjudged& of) const { return unjudged(of); }
};

std::string as_text(const Outcome& outcome, const Exhibits& exhibits) {
    const Renderers texts{to_text, to_text, to_text, to_text,
                          [](const Unjudged& of) { return of.reason + "\n"; }};
    const std::string text = std::visit(texts, outcome);
    return exhibits.known.empty() ? text : text + "known: " + one_line(exhibits.known) + "\n";
}

std::string text_head(std::span<const JudgedRecording> all) {
    return list_text(all);
}

std::string text_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits) {
    return judged.came == Came::match ? "" : "\n" + as_text(outcome, exhibits);
}

std::string text_tail(std::span<const JudgedRecording> all) {
    return "\n" + counts_text(count_judged(all)) + "\n";
}

std::string as_json(const Outcome& outcome, const Exhibits& exhibits) {
    const Renderers texts{to_json, to_json, to_json, to_json,
                          [](const Unjudged& of) { return unjudged_json(of.recording, of.reason); }};
    const std::string text = std::visit(texts, outcome);
    return exhibits.known.empty() ? text : known_json(text, exhibits.known);
}

constexpr ReportFormat formats[] = {
    {"text", "what is printed", text_head, text_part, text_tail, "", as_text},
    {"json", "for programs", json_head, json_part, json_tail, ",\n", as_json},
    {"html", "one page with pictures", html_head, html_part, html_tail, "", to_html, true},
    {"junit", "for CI servers", junit_head, junit_part, junit_tail, ""},
    {"markdown", "for a pull request", markdown_head, markdown_part, markdown_tail, ""},
    {"sarif", "for code hosts", sarif_head, sarif_part, sarif_tail, ",\n"},
};

}  // namespace

std::span<const ReportFormat> report_formats() {
    return formats;
}

const ReportFormat* report_format(std::string_view name) {
    const auto found = std::ranges::find(formats, name, &ReportFormat::name);
    return found == std::end(formats) ? nullptr : found;
}

std::string render_alone(const ReportFormat& format, const JudgedRecording& judged, const Outcome& outcome,
                         const Exhibits& exhibits) {
    if (format.alone != nullptr) return format.alone(outcome, exhibits);
    const std::span all(&judged, 1);
    return format.head(all) + format.part(judged, outcome, exhibits) + format.tail(all);
}

}  // namespace tilescope
