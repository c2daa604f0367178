#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "viewer/panels/panel.h"

namespace tilescope::viewer {

/// How a cell of the map of ranks is drawn.
struct CellLook {
    Kind kind = Kind::finite;
    float value = 0;  ///< of a finite one, in budgets
    bool operator==(const CellLook&) const = default;
};

/// A look with its name in the legend.
struct LookName {
    std::string_view name;
    std::string_view says;
    CellLook look;
    bool is_first = false;  ///< with the mark of the first wrong one
};
std::span<const LookName> look_names();

/// False where there is no recording and none is missed.
bool has_look(const App& app, const RankCell& cell);
CellLook look_of(const App& app, const RankCell& cell);

/// A line in a cell.
struct CellLine {
    std::string words;
    ImU32 colour = colours::text;
    std::string brief = {};  ///< in place of the words where there is no room for them; empty: nothing
};
std::vector<CellLine> lines_of(const App& app, const RankCell& cell);
/// "1 0" or "1 end".
std::string name_of_cell(const RunDocument& run, const RankCell& cell);
/// "rank 1, step 1", or "rank 1, at the end".
std::string title_of(const RunDocument& run, const RankCell& cell);
/// In place of the name of a fault's cause.
std::string_view why_unnamed(const RankFault& fault);
/// How it came out: a word or two, and their colour.
CellLine state_line(const App& app, const RankCell& cell);

}  // namespace tilescope::viewer
