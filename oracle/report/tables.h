#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "oracle/judge/report.h"

namespace tilescope {

// What a report holds, in the words that every format for people has.

/// Cells as they are printed, each row as long as the head.
struct ReportTable {
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows;
};

/// What tables and lists fit in. Sentences stay on one line, where grep and tail find them whole.
inline constexpr std::size_t text_columns = 80;

/// Of each column with its head.
std::vector<std::size_t> column_widths(const ReportTable& table);
/// Of columns with gaps between them.
std::size_t width_of(const std::vector<std::size_t>& widths, std::size_t gap);

/// The stage whose wrong elements are shown: the first that diverges, unless the report is narrowed to another; nullopt: none.
std::optional<Stage> shown_stage(const Report& report);

/// A row for each stage that was captured. Counts of what is the exception have a column where one is not 0.
ReportTable stage_table(const Report& report);
/// What there is to say of stages below that table, a line each.
std::vector<std::string> lines_below_stages(const Report& report);

/// The worst elements of the shown stage; no rows where none is wrong. Coordinates have
/// a column where one is not 0.
ReportTable worst_table(const Report& report);

/// "bad rows of acc: 64; it would pass with 1.7e+06 times its tolerances", and a line for each head with the ranges of its rows, at most so many; nothing where there are none.
std::vector<std::string> bad_row_lines(const Report& report, std::size_t most_heads, std::size_t most_ranges);

/// File, kernel and device; then the call.
std::vector<std::string> words_of_run(const Report& report);
std::vector<std::string> words_of_problem(const Report& report);

/// Where something is not finite or was never written, who wrote again what differs, and what drifts; "" for none of it.
std::string places_text(const Report& report);
/// What other implementations computed; "" without.
std::string references_text(const Report& report);
/// Warnings, a line each.
std::vector<std::string> warning_lines(const Report& report);

}  // namespace tilescope
