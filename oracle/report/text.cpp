#include "oracle/report/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <sstream>

#include "oracle/report/tables.h"

namespace tilescope {

namespace {

/// Parts with a gap between them, on as many lines as they take.
std::string wrapped(const std::vector<std::string>& parts, std::string_view gap) {
    std::string text;
    std::size_t used = 0;
    for (const std::string& part : parts) {
        const bool begins = used == 0 || used + gap.size() + part.size() > text_columns;
        if (used != 0) text += begins ? "\n" : gap;
        used = begins ? part.size() : used + gap.size() + part.size();
        text += part;
    }
    return text + "\n";
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    return {std::istream_iterator<std::string>(stream), {}};
}

/// The table with its numbers to the right.
std::string table_text(const ReportTable& table) {
    const std::vector<std::size_t> widths = column_widths(table);
    const std::size_t gap = width_of(widths, 2) <= text_columns ? 2 : 1;
    std::string text;
    const auto add = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            const bool is_word = table.head[i] == "stage" || table.head[i] == "state";
            if (i > 0) line.append(gap, ' ');
            line += is_word ? fmt::format("{:<{}}", cells[i], widths[i])
                            : fmt::format("{:>{}}", cells[i], widths[i]);
        }
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    };
    add(table.head);
    for (const std::vector<std::string>& row : table.rows) add(row);
    return text;
}

std::string stages_text(const Report& report) {
    std::string text = "\n" + table_text(stage_table(report));
    for (const std::string& line : lines_below_stages(report)) text += line + "\n";
    return text;
}

/// Where nothing is shown because it was asked for another place.
std::string narrowed_text(const Report& report, std::string_view stage) {
    std::vector<std::string> where;
    if (report.narrowed_row) where.push_back(fmt::format("row {}", *report.narrowed_row));
    if (report.narrowed_kv_tile) where.push_back(fmt::format("KV tile {}", *report.narrowed_kv_tile));
    if (where.empty() && !report.narrowed_to) return "";
    return fmt::format("nothing of {} diverges by itself{}{}\n", stage, where.empty() ? "" : " in ",
                       fmt::join(where, ", "));
}

std::string worst_text(const Report& report) {
    const std::optional<Stage> shown = shown_stage(report);
    if (!shown) return "";
    const ReportTable table = worst_table(report);
    const std::string_view name = stage_info(report.problem, *shown).name;
    if (table.rows.empty()) return narrowed_text(report, name);
    return fmt::format("worst of {}\n", name) + table_text(table);
}

std::string bad_rows(const Report& report) {
    std::string text;
    for (const std::string& line : bad_row_lines(report, 3, 6))
        text += (text.empty() ? "" : "  ") + line + "\n";
    return text;
}

/// One line for each kind: the first stage that has any, its first element, and the other stages.
std::string nonfinite_places(const Report& report) {
    using First = std::optional<Element> StageTally::*;
    constexpr std::pair<const char*, First> kinds[] = {{"NaN", &StageTally::first_nan},
                                                       {"infinity", &StageTally::first_infinite},
                                                       {"unwritten", &StageTally::first_unwritten}};
    std::string text;
    for (const auto& [what, first] : kinds) {
        std::string line;
        std::string others;
        for (const StageInfo& info : stages_of(report.problem)) {
            const std::optional<Element>& element = report.stage(info.stage).tally.*first;
            if (!element) continue;
            if (line.empty()) {
                line = fmt::format("first {}: {} at {}", what, info.name,
                                   tensor_place_of(report.problem, info.stage, *element));
            } else {
                others += fmt::format(" {}", info.name);
            }
        }
        if (!others.empty()) line += fmt::format("; also in{}", others);
        if (!line.empty()) text += line + "\n";
    }
    return text;
}

/// One line for the first stage with conflicts of which it is known who wrote.
std::string writers_of_conflicts(const Report& report) {
    for (const StageInfo& info : stages_of(report.problem)) {
        const std::optional<WrittenAgain>& again = report.stage(info.stage).first_repeated;
        if (!again) continue;
        return fmt::format("first written again: {} at {}: {}\n", info.name,
                           tensor_place_of(report.problem, info.stage, again->element),
                           to_string(again->writer));
    }
    return "";
}

/// The KV tiles worth a line: evenly spread, first and last included.
std::string drift_table(const Report& report) {
    if (report.drift.empty()) return "";
    constexpr std::size_t most = 6;
    const std::size_t tiles = report.drift.size();
    const std::size_t shown = std::min(tiles, most);
    std::string head = "drift at KV tile";
    std::string m = "  m   absolute   ";
    std::string l = "  l   relative   ";
    std::string acc = "  acc relative   ";
    head += " ";
    for (std::size_t i = 0; i < shown; ++i) {
        const std::size_t t = shown == 1 ? 0 : i * (tiles - 1) / (shown - 1);
        head += fmt::format("{:>10}", t);
        m += fmt::format("{:>10.2g}", report.drift[t].m);
        l += fmt::format("{:>10.2g}", report.drift[t].l);
        acc += fmt::format("{:>10.2g}", report.drift[t].acc);
    }
    const auto line = [&](Stage stage, const std::string& text) {
        return report.stage(stage).captured ? text + "\n" : std::string();
    };
    return head + "\n" + line(Stage::m, m) + line(Stage::l, l) + line(Stage::acc, acc);
}

constexpr std::array output_stages = {Stage::o, Stage::lse};

/// At most `most` names, and how many there are beside them.
std::string some_of(const std::vector<std::string>& names, std::size_t most) {
    std::string text;
    for (std::size_t i = 0; i < std::min(names.size(), most); ++i) text += (i > 0 ? ", " : "") + names[i];
    return names.size() <= most ? text : text + fmt::format(" and {} more", names.size() - most);
}

/// At most three lines: the references whose outputs are wrong, o before lse.
std::string wrong_references(const Report& report) {
    constexpr std::size_t most_lines = 3;
    std::vector<std::string> lines;
    std::vector<std::string> unsaid;
    for (const Stage stage : output_stages) {
        for (const ReferenceReport& reference : report.references) {
            const ReferenceOutput& output = reference.output(stage);
            if (!reference.info.has(stage) || !output.wrong()) continue;
            const std::string_view what = stage_info(stage).name;
            const std::string name = one_line(reference.info.name);
            if (lines.size() + 1 >= most_lines) unsaid.push_back(fmt::format("{} of {}", what, name));
            if (lines.size() == most_lines) continue;
            lines.push_back(fmt::format("reference {}: wrong in {} of {} elements of {}, first at {}: {}\n",
                                        name, output.tally.outside, output.tally.compared, what,
                                        tensor_place_of(report.problem, stage, *output.tally.first),
                                        values_of(*output.tally.first)));
        }
    }
    if (unsaid.size() > 1) lines.back() = "wrong references too: " + some_of(unsaid, 3) + "\n";
    std::string text;
    for (const std::string& line : lines) text += line;
    return text;
}

/// Rows that see no key, where a reference does otherwise than the kernel declares.
std::string other_conventions(const Report& report) {
    std::vector<std::string> differing;
    for (const ReferenceReport& reference : report.references) {
        for (const Stage stage : output_stages) {
            const EmptyRow declared =
                stage == Stage::o ? report.units.o_empty_row : report.units.lse_empty_row;
            std::string held;
            for (const EmptyRow empty : other_empty_rows(reference.output(stage), declared))
                held += fmt::format("{}{}", held.empty() ? "" : " and ", name_of(empty));
            if (held.empty()) continue;
            differing.push_back(fmt::format("{} has {} in {}, where the dump declares {}",
                                            one_line(reference.info.name), held, stage_info(stage).name,
                                            name_of(declared)));
        }
    }
    return differing.empty() ? "" : "rows without keys: " + some_of(differing, 2) + "\n";
}

std::string closest_reference(const Report& report) {
    const std::vector<std::size_t> closest = closest_references(report.references);
    if (closest.empty()) return "";
    const ReferenceReport& first = report.references[closest[0]];
    const std::string name = one_line(first.info.name);
    std::string text = fmt::format(
        "closest reference: {}{} (rms difference {:.2g}; the oracle is {:.2g} away)", name,
        first.o.wrong() ? ", which is wrong" : "", first.o.to_kernel.rms(), first.o.kernel_to_oracle.rms());
    std::vector<std::string> ties;
    for (std::size_t i = 1; i < closest.size(); ++i)
        ties.push_back(one_line(report.references[closest[i]].info.name));
    if (!ties.empty()) text += ", tied with " + some_of(ties, 3);
    switch (closer_to_oracle(first.o)) {
        case Closer::neither:
            return text + "; both are as close to the oracle\n";
        case Closer::kernel:
        case Closer::reference:
            const bool kernel = closer_to_oracle(first.o) == Closer::kernel;
            return text + fmt::format("; the {} is closer to the oracle: {} is {:.2g} away\n",
                                      kernel ? "kernel" : "reference", name, first.o.shared_to_oracle.rms());
    }
    return text + "\n";
}

}  // namespace

/// At most 6 lines; nothing where there are no references.
std::string references_text(const Report& report) {
    std::vector<std::string> right;
    std::vector<std::string> not_judged;
    for (const ReferenceReport& reference : report.references) {
        if (reference.right()) right.push_back(one_line(reference.info.name));
        if (!reference.right() && !reference.wrong()) not_judged.push_back(one_line(reference.info.name));
    }
    std::string text;
    if (!right.empty()) text = "right references: " + some_of(right, 4) + "\n";
    if (!not_judged.empty()) text += "references not judged, whole outputs: " + some_of(not_judged, 4) + "\n";
    return text + wrong_references(report) + other_conventions(report) + closest_reference(report);
}

std::string places_text(const Report& report) {
    return nonfinite_places(report) + writers_of_conflicts(report) +
           (report.guilty ? drift_table(report) : "");
}

std::string row_ranges(const std::vector<std::int64_t>& rows, std::size_t most) {
    std::string text;
    std::size_t ranges = 0;
    for (std::size_t i = 0; i < rows.size();) {
        std::size_t end = i;
        while (end + 1 < rows.size() && rows[end + 1] == rows[end] + 1) ++end;
        if (ranges++ == most) return text + ", ...";
        if (!text.empty()) text += ", ";
        text += end == i ? fmt::format("{}", rows[i]) : fmt::format("{}-{}", rows[i], rows[end]);
        i = end + 1;
    }
    return text;
}

std::string tolerance_line(const Report& report) {
    if (report.atol || report.rtol)
        return fmt::format("tolerances given: atol {:g}, rtol {:g}", report.atol.value_or(0),
                           report.rtol.value_or(0));
    return fmt::format(
        "tolerances derived: a healthy kernel is outside of any with a probability of {:.2g} at most",
        1 - report.confidence);
}

std::string values_in(const Report& report, const Element& element) {
    const bool written = element.finding != Finding::unwritten && element.finding != Finding::conflicting;
    if (report.other.empty() || !written) return values_of(element);
    return fmt::format("{} here, {} there, +- {:.3g}", digits_of(element.got), digits_of(element.expected),
                       element.tolerance);
}

std::string verdict_line(const Report& report) {
    const std::string against = report.other.empty() ? "the float64 oracle" : one_line(report.other);
    if (!report.unjudged.empty()) return "unjudged: " + one_line(report.unjudged);
    if (!report.guilty) {
        int stages = 0;
        for (const StageReport& stage : report.stages) stages += stage.tally.compared > 0;
        return fmt::format("match: {} elements of {} stages agree with {}", report.compared(), stages,
                           against);
    }
    const Element& first = *report.first_divergence;
    const std::string place = place_of(report.problem, report.threads, *report.guilty, first);
    const std::string what =
        report.other.empty() ? "first wrong stage" : "first stage that differs from " + against;
    return fmt::format("diverged: {} is the {}, at {}: {}", stage_info(report.problem, *report.guilty).name,
                       what, place, values_in(report, first));
}

std::vector<EmptyRow> other_empty_rows(const ReferenceOutput& output, EmptyRow declared) {
    std::vector<EmptyRow> others;
    for (std::size_t i = 0; i < empty_row_kinds; ++i) {
        if (output.empty_rows[i] && static_cast<EmptyRow>(i) != declared)
            others.push_back(static_cast<EmptyRow>(i));
    }
    return others;
}

std::string to_text(const Report& report) {
    std::string text = wrapped(words_of_run(report), "  ") + wrapped(words_of_problem(report), "  ");
    text += stages_text(report) + "\n";
    text += worst_text(report) + bad_rows(report);
    text += places_text(report) + references_text(report) + causes_text(report);
    if (report.reached) text += to_text(*report.reached);
    text += tolerance_line(report) + "\n";
    for (const std::string& warning : warning_lines(report)) text += wrapped(words_of(warning), " ");
    return text + verdict_line(report) + "\n";
}

}  // namespace tilescope
