#include "oracle/report/tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "oracle/report/text.h"

namespace tilescope {

namespace {

std::string mask_text(const Problem& problem) {
    if (problem.mask != Mask::causal) return "no mask";
    return problem.causal_alignment == CausalAlignment::top_left ? "causal (top left)"
                                                                 : "causal (bottom right)";
}

/// What the element holds, in a table's cell.
std::string got_cell(const Element& element) {
    if (element.finding == Finding::unwritten) return "unwritten";
    if (element.finding == Finding::conflicting) return "conflicting";
    return digits_of(element.got);
}

/// Beyond all bits of a significand it says no more than that sign or magnitude are others.
std::string ulps_cell(std::uint64_t ulps) {
    constexpr int significand = 24;
    return ulps > std::uint64_t(1) << significand ? fmt::format("> 2^{}", significand) : std::to_string(ulps);
}

/// How much wider the tolerances would have to be; "" where none is wide enough, or that is not known.
std::string passing_text(const Report& report, const StageTally& tally) {
    const bool knows_worst = !report.narrowed_row && !report.narrowed_kv_tile && !tally.worst.empty();
    if (!knows_worst || tally.conflicting > 0 || !std::isfinite(tally.worst.front().ratio())) return "";
    return fmt::format("; it would pass with {:.2g} times its tolerances", tally.worst.front().ratio());
}

void erase_column(ReportTable& table, std::size_t column) {
    const auto erase = [&](std::vector<std::string>& cells) {
        cells.erase(cells.begin() + std::ptrdiff_t(column));
    };
    erase(table.head);
    for (std::vector<std::string>& row : table.rows) erase(row);
}

/// Without those of its columns `may_go` that are empty or 0 everywhere, and without the one that others tell, `known`,
/// where it is too wide with it.
ReportTable fitted(ReportTable table, const std::vector<std::string_view>& may_go, std::string_view known) {
    const auto is_empty = [&](std::size_t column) {
        return std::ranges::all_of(table.rows, [&](const std::vector<std::string>& row) {
            return row[column].empty() || row[column] == "0";
        });
    };
    for (std::size_t i = table.head.size(); i-- > 0;)
        if (std::ranges::count(may_go, table.head[i]) > 0 && is_empty(i)) erase_column(table, i);
    const auto at = std::ranges::find(table.head, known);
    if (width_of(column_widths(table), 2) > text_columns && at != table.head.end())
        erase_column(table, std::size_t(at - table.head.begin()));
    return table;
}

}  // namespace

std::vector<std::size_t> column_widths(const ReportTable& table) {
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < table.head.size(); ++i) {
        std::size_t width = table.head[i].size();
        for (const std::vector<std::string>& row : table.rows) width = std::max(width, row[i].size());
        widths.push_back(width);
    }
    return widths;
}

std::size_t width_of(const std::vector<std::size_t>& widths, std::size_t gap) {
    const std::size_t gaps = widths.empty() ? 0 : gap * (widths.size() - 1);
    return std::accumulate(widths.begin(), widths.end(), gaps);
}

std::optional<Stage> shown_stage(const Report& report) {
    return report.narrowed_to ? report.narrowed_to : report.guilty;
}

std::vector<std::string> words_of_run(const Report& report) {
    std::vector<std::string> words = {one_line(report.recording)};
    if (!report.other.empty()) words.push_back("against " + one_line(report.other));
    if (!report.provenance.kernel.empty()) words.push_back(one_line(report.provenance.kernel));
    if (!report.provenance.device.empty()) words.push_back("on " + one_line(report.provenance.device));
    return words;
}

std::vector<std::string> words_of_problem(const Report& report) {
    const Problem& p = report.problem;
    const bool backward = p.direction == Direction::backward;
    std::vector<std::string> words = {fmt::format("batch {}", p.batch),
                                      fmt::format("heads {} (kv {})", p.heads, p.heads_kv),
                                      fmt::format("seqlen_q {}", p.seqlen_q),
                                      fmt::format("seqlen_kv {}", p.seqlen_kv),
                                      fmt::format("head_dim {}", p.head_dim),
                                      fmt::format("tile {}x{}", p.block_m, p.block_n),
                                      fmt::format("{} -> {}", dtype_info(p.dtype_q).name,
                                                  dtype_info(backward ? p.dtype_dq : p.dtype_o).name),
                                      mask_text(p)};
    if (backward) words.insert(words.begin(), "backward");
    words.insert(words.end(), report.options.begin(), report.options.end());
    return words;
}

ReportTable stage_table(const Report& report) {
    ReportTable table{{"stage", "compared", "outside", "nan", "inf", "unwritten", "conflicts", "inherited",
                       "max |diff|", "max ulp", "state"},
                      {}};
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageReport& stage = report.stage(info.stage);
        if (!stage.captured || info.stage != report.narrowed_to.value_or(info.stage)) continue;
        const StageTally& t = stage.tally;
        std::vector<std::string> row = {std::string(info.name)};
        for (const std::int64_t count :
             {t.compared, t.outside, t.nan, t.infinite, t.unwritten, t.conflicting, t.inherited})
            row.push_back(std::to_string(count));
        row.push_back(fmt::format("{:.3g}", t.max_abs));
        row.push_back(ulps_cell(t.max_ulp));
        row.emplace_back(state_text(report, info.stage));
        table.rows.push_back(std::move(row));
    }
    return fitted(std::move(table), {"nan", "inf", "unwritten", "conflicts", "inherited"}, "max ulp");
}

std::vector<std::string> lines_below_stages(const Report& report) {
    std::string not_captured;
    std::string not_judged;
    for (const StageInfo& info : stages_of(report.problem)) {
        const StageReport& stage = report.stage(info.stage);
        if (!stage.captured && !is_named(info.stage)) not_captured += fmt::format(" {}", info.name);
        if (!stage.captured || stage.tally.not_judged == 0) continue;
        not_judged +=
            fmt::format("{}{} of {}", not_judged.empty() ? "" : ", ", stage.tally.not_judged, info.name);
    }
    std::vector<std::string> lines;
    if (!not_judged.empty())
        lines.push_back("not judged, within a tolerance as wide as what could be there: " + not_judged);
    if (!not_captured.empty()) lines.push_back("not captured:" + not_captured);
    if (!report.without_reference.empty())
        lines.push_back(
            fmt::format("not judged, no reference: {}", fmt::join(report.without_reference, " ")));
    return lines;
}

ReportTable worst_table(const Report& report) {
    const std::optional<Stage> shown = shown_stage(report);
    if (!shown) return {};
    const StageInfo info = stage_info(report.problem, *shown);
    const bool keys = info.row_axis == Axis::key;
    const bool columns = info.col_axis == Axis::feature || is_named(info.stage);
    const std::string col_name = info.col_axis == Axis::key     ? "key"
                                 : info.col_axis == Axis::query ? "row"
                                 : columns                      ? "column"
                                                                : "";
    const std::int64_t block = tile_shape(report.problem, info.stage).rows;
    ReportTable table{{"batch", "head", info.per_q_block ? "q block" : "", keys ? "key" : "row", col_name,
                       info.per_kv_tile ? "KV tile" : "", "row in tile", "got", "expected", "+-"},
                      {}};
    const auto where = [](bool has, std::int64_t place) {
        return has ? std::to_string(place) : std::string();
    };
    for (const Element& e : report.stage(info.stage).tally.worst) {
        table.rows.push_back({std::to_string(e.tile.batch), std::to_string(e.tile.head),
                              where(info.per_q_block, e.tile.q_block), std::to_string(e.row),
                              where(!col_name.empty(), e.col), where(info.per_kv_tile, e.tile.kv_tile),
                              std::to_string(e.row % block), got_cell(e), digits_of(e.expected),
                              fmt::format("{:.3g}", e.tolerance)});
    }
    if (table.rows.empty()) return table;
    return fitted(std::move(table), {"batch", "head", "q block", "KV tile", ""}, "q block");
}

std::vector<std::string> bad_row_lines(const Report& report, std::size_t most_heads,
                                       std::size_t most_ranges) {
    const std::optional<Stage> shown = shown_stage(report);
    if (!shown) return {};
    const StageTally& tally = report.stage(*shown).tally;
    const std::vector<BadRow>& bad = tally.bad_rows;
    if (bad.empty()) return {};
    const StageInfo info = stage_info(report.problem, *shown);
    std::vector<std::string> lines = {fmt::format("bad {} of {}: {}{}",
                                                  info.row_axis == Axis::key ? "keys" : "rows", info.name,
                                                  bad.size(), passing_text(report, tally))};
    for (std::size_t i = 0; i < bad.size();) {
        const BadRow& start = bad[i];
        std::vector<std::int64_t> rows;
        for (; i < bad.size() && bad[i].batch == start.batch && bad[i].head == start.head; ++i)
            rows.push_back(bad[i].row);
        if (lines.size() > most_heads) {
            lines.emplace_back("...");
            break;
        }
        lines.push_back(
            fmt::format("batch {} head {}: {}", start.batch, start.head, row_ranges(rows, most_ranges)));
    }
    return lines;
}

std::vector<std::string> warning_lines(const Report& report) {
    std::vector<std::string> lines;
    for (const std::string& warning : report.warnings) lines.push_back("warning: " + one_line(warning));
    return lines;
}

}  // namespace tilescope
