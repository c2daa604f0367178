#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/report.h"

namespace tilescope {

namespace {

std::string_view name_of(Mask mask) {
    return mask == Mask::causal ? "causal" : "no mask";
}

std::string heading(const Report& report) {
    const Problem& p = report.problem;
    const Provenance& from = report.provenance;
    std::string text =
        report.other.empty() ? report.recording : report.recording + " against " + report.other;
    if (!from.kernel.empty()) text += "  " + from.kernel;
    if (!from.device.empty()) text += "  on " + from.device;
    text += fmt::format(
        "\nbatch {}  heads {} (kv {})  seqlen_q {}  seqlen_kv {}  head_dim {}  tile {}x{}  {} -> {}  {}",
        p.batch, p.heads, p.heads_kv, p.seqlen_q, p.seqlen_kv, p.head_dim, p.block_m, p.block_n,
        dtype_info(p.dtype_q).name, dtype_info(p.dtype_o).name, name_of(p.mask));
    if (p.mask == Mask::causal) {
        text += p.causal_alignment == CausalAlignment::top_left ? " (top left)" : " (bottom right)";
    }
    if (p.window_left >= 0 || p.window_right >= 0)
        text += fmt::format("  window {}, {}", p.window_left, p.window_right);
    return text + "\n";
}

std::string_view state_of(const Report& report, const StageInfo& info) {
    const StageReport& stage = report.stage(info.stage);
    if (stage.tally.diverges()) return report.guilty == info.stage ? "FIRST WRONG" : "wrong too";
    if (stage.tally.inherited > 0) return "inherited";
    return stage.tally.compared > 0 ? "ok" : "nothing to compare";
}

std::string stage_table(const Report& report) {
    std::string text = fmt::format("\n{:<6}{:>11}{:>10}{:>7}{:>7}{:>10}{:>11}{:>11}{:>12}{:>11}  {}\n",
                                   "stage", "compared", "outside", "nan", "inf", "unwritten", "conflicts",
                                   "inherited", "max |diff|", "max ulp", "state");
    std::string not_captured;
    for (const StageInfo& info : all_stages()) {
        if (!report.stage(info.stage).captured) {
            not_captured += fmt::format(" {}", info.name);
            continue;
        }
        const StageTally& t = report.stage(info.stage).tally;
        text += fmt::format("{:<6}{:>11}{:>10}{:>7}{:>7}{:>10}{:>11}{:>11}{:>12.3g}{:>11}  {}\n", info.name,
                            t.compared, t.outside, t.nan, t.infinite, t.unwritten, t.conflicting, t.inherited,
                            t.max_abs, t.max_ulp, state_of(report, info));
    }
    return not_captured.empty() ? text : text + "not captured:" + not_captured + "\n";
}

/// "0-63, 80" for rows in ascending order; at most `most` ranges.
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

std::string bad_rows(const Report& report) {
    const StageTally& tally = report.stage(*report.guilty).tally;
    if (tally.bad_rows.empty()) return "";
    const bool keys = stage_info(*report.guilty).row_axis == Axis::key;
    std::string text = fmt::format("bad {} of {}: {}", keys ? "keys" : "rows",
                                   stage_info(*report.guilty).name, tally.bad_rows.size());
    constexpr int most_heads = 3;
    int heads = 0;
    for (std::size_t i = 0; i < tally.bad_rows.size();) {
        const BadRow& start = tally.bad_rows[i];
        std::vector<std::int64_t> rows;
        for (; i < tally.bad_rows.size() && tally.bad_rows[i].batch == start.batch &&
               tally.bad_rows[i].head == start.head;
             ++i) {
            rows.push_back(tally.bad_rows[i].row);
        }
        if (heads++ == most_heads) return text + "\n  ...\n";
        text += fmt::format("\n  batch {} head {}: {}", start.batch, start.head, row_ranges(rows, 6));
    }
    return text + "\n";
}

std::string worst_elements(const Report& report) {
    const StageTally& tally = report.stage(*report.guilty).tally;
    std::string text = fmt::format("worst of {}\n", stage_info(*report.guilty).name);
    for (const Element& element : tally.worst) {
        text +=
            fmt::format("  {}: {}\n", place_of(report.problem, *report.guilty, element), values_of(element));
    }
    return tally.worst.empty() ? "" : text;
}

std::string nonfinite_places(const Report& report) {
    std::string text;
    for (const StageInfo& info : all_stages()) {
        const StageTally& t = report.stage(info.stage).tally;
        const std::pair<const char*, const std::optional<Element>*> places[] = {
            {"NaN", &t.first_nan},
            {"infinity", &t.first_infinite},
            {"unwritten element", &t.first_unwritten}};
        for (const auto& [what, first] : places) {
            if (!*first) continue;
            text += fmt::format("first {} of {}: {}\n", what, info.name,
                                place_of(report.problem, info.stage, **first));
        }
    }
    return text;
}

/// The KV tiles worth a line: evenly spread, first and last included.
std::string drift_table(const Report& report) {
    if (report.drift.empty()) return "";
    constexpr std::size_t most = 8;
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

}  // namespace

std::string to_text(const Report& report) {
    std::string text = heading(report) + stage_table(report) + "\n";
    if (report.guilty) text += worst_elements(report) + bad_rows(report);
    text += nonfinite_places(report);
    if (report.guilty) text += drift_table(report);
    for (const std::string& warning : report.warnings) text += "warning: " + warning + "\n";
    return text + verdict_line(report) + "\n";
}

}  // namespace tilescope
