#include "oracle/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "dump/schema/shell_word.h"
#include "dump/schema/text.h"
#include "oracle/report/card.h"
#include "oracle/report/markup.h"
#include "oracle/report/program.h"
#include "oracle/report/ranks.h"
#include "oracle/report/tables.h"
#include "oracle/report/text.h"

namespace tilescope {

namespace {

/// Source: RFC 4648, section 4.
std::string base64(std::string_view bytes) {
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    text.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const auto byte = [&](std::size_t at) {
            return at < bytes.size() ? unsigned(static_cast<unsigned char>(bytes[at])) : 0u;
        };
        const unsigned three = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
        const std::size_t filled = std::min<std::size_t>(bytes.size() - i, 3) + 1;
        for (std::size_t digit = 0; digit < 4; ++digit)
            text += digit < filled ? digits[three >> (18 - 6 * digit) & 63] : '=';
    }
    return text;
}

/// How a state looks: in shape, not only in colour.
struct StateLook {
    StageState state;
    std::string_view alone;
    std::string_view of_pair;
};
constexpr std::array state_looks = {
    StateLook{StageState::not_captured, "absent", "absent"},
    StateLook{StageState::not_compared, "absent", "absent"},
    StateLook{StageState::not_judged, "unknown", "unknown"},
    StateLook{StageState::not_declared, "unknown", "unknown"},
    StateLook{StageState::ok, "right", "right"},
    StateLook{StageState::inherited, "inherited", "inherited"},
    StateLook{StageState::wrong_too, "wrong", "differs"},
    StateLook{StageState::first_wrong, "guilty", "differs"},
};

std::string_view look_of(const Report& report, Stage stage) {
    const StateLook& look = *std::ranges::find(state_looks, state_of(report, stage), &StateLook::state);
    return report.other.empty() ? look.alone : look.of_pair;
}

std::string paragraph(std::string_view kind, std::string_view text) {
    return text.empty() ? "" : fmt::format("<p class=\"{}\">{}</p>\n", kind, markup_escaped(text));
}

std::string card(std::string_view look, std::string_view headline, const std::string& below) {
    return fmt::format("<header class=\"card {}\">\n<h1>{}</h1>\n{}</header>\n", look,
                       markup_escaped(headline), below);
}

std::string spans(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += fmt::format("<span>{}</span>\n", markup_escaped(word));
    return fmt::format("<p class=\"run dim\">\n{}</p>\n", text);
}

std::string chain(const Report& report) {
    std::string items;
    for (const ChainLink& link : chain_of(report)) {
        if (is_named(link.stage) && !report.stage(link.stage).captured) continue;
        items += fmt::format("<li class=\"{}\" title=\"{}\"><b>{}</b> <i></i>{}</li>\n",
                             look_of(report, link.stage), markup_escaped(link.says),
                             markup_escaped(stage_info(report.problem, link.stage).name),
                             markup_escaped(link.word));
    }
    return fmt::format("<ol class=\"chain\">\n{}</ol>\n", items);
}

/// Columns without a name are left out. `marked`: a row that stands out, by its first cell; "" for none.
std::string table(const ReportTable& cells, std::string_view caption, std::string_view marked) {
    const auto row_of = [&](const std::vector<std::string>& row, std::string_view tag) {
        std::string text;
        for (std::size_t i = 0; i < row.size(); ++i)
            if (!cells.head[i].empty()) text += fmt::format("<{0}>{1}</{0}> ", tag, markup_escaped(row[i]));
        const bool stands_out = tag == "td" && !marked.empty() && row[0] == marked;
        return fmt::format("<tr{}>{}</tr>\n", stands_out ? " class=\"marked\"" : "", text);
    };
    std::string body;
    for (const std::vector<std::string>& row : cells.rows) body += row_of(row, "td");
    const std::string title =
        caption.empty() ? "" : fmt::format("<caption>{}</caption>\n", markup_escaped(caption));
    return fmt::format(
        "<div class=\"scroll\"><table>\n{}<thead>\n{}</thead>\n<tbody>\n{}</tbody>\n</table></div>\n", title,
        row_of(cells.head, "th"), body);
}

std::string preformatted(const std::string& text) {
    return text.empty() ? "" : fmt::format("<pre>{}</pre>\n", markup_escaped(text));
}

/// A paragraph for each line; those that are indented belong to the one above.
std::string indented_lines(const std::string& text) {
    std::istringstream lines(text);
    std::string html;
    for (std::string line; std::getline(lines, line);) {
        const bool below = line.starts_with("  ");
        const bool look = line.starts_with("  look at: ");
        html += paragraph(look    ? "sub look"
                          : below ? "sub"
                                  : "cause",
                          below ? std::string_view(line).substr(2) : line);
    }
    return html;
}

std::string section(std::string_view title, const std::string& contents) {
    return contents.empty() ? "" : fmt::format("<section>\n<h2>{}</h2>\n{}</section>\n", title, contents);
}

std::string stages(const Report& report) {
    const std::string guilty =
        report.guilty ? std::string(stage_info(report.problem, *report.guilty).name) : "";
    std::string html = table(stage_table(report), "", guilty);
    for (const std::string& line : lines_below_stages(report)) html += paragraph("dim", line);
    return html;
}

std::string wrong_places(const Report& report) {
    std::string html;
    const ReportTable worst = worst_table(report);
    if (!worst.rows.empty())
        html += table(worst,
                      fmt::format("worst of {}", stage_info(report.problem, *shown_stage(report)).name), "");
    std::string rows;
    for (const std::string& line : bad_row_lines(report, 64, 32))
        rows += (rows.empty() ? "" : "  ") + line + "\n";
    return html + indented_lines(rows);
}

std::string pictures(const Exhibits& exhibits) {
    std::string figures;
    for (const ReportPicture& picture : exhibits.pictures) {
        const std::string caption = markup_escaped(picture.caption);
        figures += fmt::format(
            "<figure><img alt=\"{0}\" width=\"{1}\" height=\"{2}\" "
            "src=\"data:image/png;base64,{3}\">\n<figcaption>{0}</figcaption></figure>\n",
            caption, picture.width, picture.height, base64(picture.png));
    }
    return figures.empty() ? "" : fmt::format("<div class=\"pictures\">\n{}</div>\n", figures);
}

/// STAGE,BATCH,HEAD,ROW,COL[,KV_TILE] of the first divergence, as the programs take it.
std::string place_for_programs(const Report& report, char after_stage) {
    const Element& first = *report.first_divergence;
    const StageInfo info = stage_info(report.problem, *report.guilty);
    std::string place = fmt::format("{}{}{},{},{},{}", info.name, after_stage, first.tile.batch,
                                    first.tile.head, first.row, first.col);
    const bool operand = info.stage == Stage::k || info.stage == Stage::v;
    if (operand) return place + fmt::format(",{}", first.tile.q_block);
    const bool walks_keys = info.row_axis == Axis::key || info.col_axis == Axis::key;
    return info.per_kv_tile && !walks_keys ? place + fmt::format(",{}", first.tile.kv_tile) : place;
}

std::string command(std::string_view what, std::string_view line) {
    return line.empty() ? ""
                        : fmt::format("<p>{}</p>\n<pre>{}</pre>\n", markup_escaped(what),
                                      markup_escaped(one_line(line)));
}

std::string commands_of(const Report& report) {
    if (!report.guilty || is_named(*report.guilty)) return "";
    const std::string file = shell_word(report.recording);
    if (!report.other.empty())
        return command("To look at both:", fmt::format("tile-view {} {}", file, shell_word(report.other)));
    return command(
               "What the tolerance of the first wrong element is made of:",
               fmt::format("tile-diff {} --explain-tolerance {}", file, place_for_programs(report, ','))) +
           command("To look at it:",
                   fmt::format("tile-view {} --goto {}", file, place_for_programs(report, ':')));
}

std::string page_begin(std::string_view title) {
    return fmt::format(R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{}</title>
<style>{}</style>
</head>
<body>
)",
                       markup_escaped(title), html_style);
}

constexpr std::string_view page_end = "</body>\n</html>\n";

std::string body_of(const Report& report, const Exhibits& exhibits) {
    const Card words =
        card_of(report, report.diagnosis, report.diagnosis.searched ? CausesKnown::yes : CausesKnown::no);
    const std::string look_at = words.look_at.empty() ? "" : "look at: " + words.look_at;
    std::string html =
        card(report.guilty             ? "wrong"
             : report.unjudged.empty() ? "right"
                                       : "unjudged",
             words.headline,
             paragraph("look", look_at) + paragraph("", words.evidence) + paragraph("", words.also) +
                 paragraph("", exhibits.known.empty() ? "" : "known: " + one_line(exhibits.known)));
    html += spans(words_of_run(report)) + spans(words_of_problem(report)) + chain(report);
    html += section("Stages", stages(report)) +
            section("Where", wrong_places(report) + preformatted(places_text(report)));
    html += section("Why", indented_lines(causes_text(report))) + section("Pictures", pictures(exhibits));
    std::string warnings;
    for (const std::string& line : warning_lines(report)) warnings += paragraph("warning", line);
    html += section("Other implementations", preformatted(references_text(report)));
    html += section("How far the run came", report.reached ? preformatted(to_text(*report.reached)) : "");
    html += section("Verdict", warnings + paragraph("dim", tolerance_line(report)) +
                                   paragraph("verdict", verdict_line(report)));
    return html + section("Commands", command("This page:", exhibits.command) + commands_of(report) +
                                          command("The recording:", report.provenance.command));
}

std::string last_line(std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text.substr(text.rfind('\n') + 1);
}

std::string body_of(const SameRun& runs, const Exhibits& exhibits) {
    const std::string text = to_text(runs);
    return card(runs.diverges() ? "wrong" : "right", last_line(text), "") +
           section("Stages", preformatted(text)) +
           section("Commands", command("This page:", exhibits.command));
}

std::string body_of(const RankReport& report, const Exhibits& exhibits) {
    const std::string_view look = report.diverges()         ? "wrong"
                                  : report.unjudged.empty() ? "right"
                                                            : "unjudged";
    std::string html = card(look, verdict_line(report), paragraph("dim", one_line(report.recording))) +
                       section("Ranks and steps", preformatted(to_text(report)));
    for (const RankPart& part : report.parts)
        if (part.report && part.report->guilty)
            html +=
                fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n",
                            markup_escaped(one_line(part.recording)), preformatted(to_text(*part.report)));
    return html + section("Commands", command("This page:", exhibits.command));
}

std::string body_of(const JudgedProgram& program, const Exhibits& exhibits) {
    const std::string known = exhibits.known.empty() ? "" : "known: " + one_line(exhibits.known);
    return card(program.report.first_wrong < 0 ? "right" : "wrong",
                verdict_line(program.program, program.report), paragraph("", known)) +
           section("Stages", preformatted(to_text(program))) +
           section("Program", preformatted(readable(program.program_text))) +
           section("Commands", command("This page:", exhibits.command) +
                                   command("The recording:", program.provenance.command));
}

std::string body_of(const Unjudged& unjudged, const Exhibits& exhibits) {
    return card("unjudged", "unjudged: " + unjudged.reason, paragraph("dim", one_line(unjudged.recording))) +
           section("Commands", command("This page:", exhibits.command));
}

std::string title_of(const Report& report) {
    const std::string_view verdict = !report.unjudged.empty() ? "unjudged"
                                     : report.guilty          ? "diverged"
                                                              : "match";
    return fmt::format("{}: {}", verdict, one_line(report.recording));
}
std::string title_of(const SameRun& runs) {
    return fmt::format("{}: {}", runs.diverges() ? "diverged" : "match", one_line(runs.first));
}
std::string title_of(const RankReport& report) {
    return fmt::format("{}: {}",
                       report.diverges()         ? "diverged"
                       : report.unjudged.empty() ? "match"
                                                 : "unjudged",
                       one_line(report.recording));
}
std::string title_of(const JudgedProgram& program) {
    return fmt::format("{}: {}", program.report.first_wrong < 0 ? "match" : "diverged",
                       one_line(program.recording));
}
std::string title_of(const Unjudged& unjudged) {
    return "unjudged: " + one_line(unjudged.recording);
}

}  // namespace

std::string to_html(const Outcome& outcome, const Exhibits& exhibits) {
    return std::visit(
        [&](const auto& of) {
            return page_begin(title_of(of)) + body_of(of, exhibits) + std::string(page_end);
        },
        outcome);
}

std::string html_head(std::span<const JudgedRecording> all) {
    constexpr std::string_view looks[] = {"right", "wrong", "unjudged"};
    const std::string counts = counts_text(count_judged(all));
    ReportTable recordings{{"recording", "verdict", "stage", "cause", "time"}, {}};
    for (const JudgedRecording& judged : all) {
        const std::string cause =
            judged.came == Came::known ? judged.cause + ": " + judged.reason : judged.cause;
        recordings.rows.push_back({one_line(judged.recording), std::string(to_string(judged.came)),
                                   judged.stage, cause, fmt::format("{:.2f} s", judged.seconds)});
    }
    return page_begin(counts) + card(looks[std::size_t(exit_code_of(all))], counts, "") +
           section("Recordings", "<div class=\"words\">" + table(recordings, "", "") + "</div>\n");
}

/// Open where a person has to look.
std::string html_part(const JudgedRecording& judged, const Outcome& outcome, const Exhibits& exhibits) {
    const std::string body = std::visit([&](const auto& of) { return body_of(of, exhibits); }, outcome);
    return fmt::format("<details{}>\n<summary>{} {}</summary>\n{}</details>\n",
                       exit_code_of(judged.came) == 0 ? "" : " open", to_string(judged.came),
                       markup_escaped(one_line(judged.recording)), body);
}

std::string html_tail(std::span<const JudgedRecording>) {
    return std::string(page_end);
}

}  // namespace tilescope
