#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "viewer/session/run_session.h"

namespace tilescope::viewer {

struct App;

/// A place of the map of ranks and steps.
struct RankCell {
    std::int64_t rank = 0;
    std::int64_t column = 0;  ///< of the grid
    bool operator==(const RankCell&) const = default;
};

/// The level above a recording: the run of several ranks that it is a part of.
struct RanksView {
    std::shared_ptr<const RunDocument> run;  ///< of the current frame; null: none is open
    bool shown = false;                      ///< in place of a recording
    std::uint64_t generation = 0;            ///< of the run that was shown last
    RankCell cell;
    std::optional<RankCell> pointed;  ///< under the pointer
    bool chosen = false;              ///< somebody chose the cell: the report does not move it
    std::uint64_t placed = 0;         ///< generation of the run whose report moved it
    RankCell followed{-1, -1};        ///< the cell that the map was scrolled to
    std::string asked;                ///< folder that is to be shown once it is open
    std::string entering;             ///< recording that is to be shown once it is open
    std::uint64_t left = 0;           ///< generation of the recording that was open before it
};

/// Takes the run's state at the beginning of a frame, and shows what was asked for once it is there: ranks and steps, or a recording.
/// Sets the status of the frame.
void follow_run(App& app);
/// A folder: its run is shown, or its only recording.
void open_folder(App& app, const std::string& folder);
/// Called where a recording is opened: it is shown in place of ranks and steps, and what it is no part of is closed.
void show_recording_once_open(App& app, const std::string& path);

/// The part at a cell, or at the chosen one.
std::optional<std::size_t> part_at(const App& app, const RankCell& cell);
std::optional<std::size_t> chosen_part(const App& app);
/// The part that the recording on screen is.
std::optional<std::size_t> part_on_screen(const App& app);
/// The first fault of a part; null for none.
const RankFault* fault_of(const RankReport& report, std::size_t part);

/// Opens the recording of the chosen cell at what is wrong in it.
void enter_recording(App& app);
/// Back up from a recording; false where it is no part of a run.
bool leave_recording(App& app);
/// The same; from a recording of a run that was opened by itself, to the run in its folder. Says so where there is none.
void go_up(App& app);
/// By ranks and columns, as far as there are any.
void move_cell(App& app, std::int64_t ranks, std::int64_t columns);
void choose_cell(App& app, const RankCell& cell);
void choose_part(App& app, std::size_t part);
/// To the rank and step that are wrong first; false where there are none.
bool choose_first_wrong(App& app);
/// To the next (1) or previous (-1) cell with something wrong by itself, in the order of the report.
void walk_wrong_cells(App& app, int step);
/// "1,2" or "1,end", as --goto has it.
std::string coordinates_of(const RunDocument& run, const RankCell& cell);
/// Errors are shown at the bottom; then false.
bool go_to_cell(App& app, const std::string& text);

/// To the element that the run's report says is wrong in the recording on screen; false where it says none, or it is of no stage
/// that was recorded.
bool go_to_wrong_of_run(App& app);

}  // namespace tilescope::viewer
