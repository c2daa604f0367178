#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "viewer/session/declared.h"
#include "viewer/session/session.h"
#include "viewer/state/view_state.h"

namespace tilescope::viewer {

struct App;

/// What is looked at in a declared kernel.
struct DeclaredView {
    std::shared_ptr<const Document> document;  ///< of the current frame; null: no declared kernel is open
    std::uint64_t generation = 0;              ///< that was shown last
    std::string shown;                         ///< its path, text and extents
    int stage = -1;                            ///< array of the program
    /// An index along each axis: every stage has an element there, so that stages can be compared at it.
    std::vector<std::int64_t> at;
    /// The part of each axis that is shown, and then of the blocks of each.
    std::vector<AxisRange> ranges;
    std::optional<PlanePoint> hovered;  ///< row and column under the pointer

    const DeclaredKernel& kernel() const { return *document->declared; }
    const ProgramArray& array() const { return kernel().program().array(stage); }
};

/// Called at the beginning of a frame: a recording that was not shown before is shown at the worst element of the first wrong stage.
void follow_declared(App& app);

/// Stages, in the order of the program.
std::vector<int> stages_of(const Program& program);
/// How a stage came out.
enum class DeclaredState : std::uint8_t { right, not_stored, not_judged, inherited, wrong_too, first_wrong };
DeclaredState state_of(const DeclaredKernel& kernel, int stage);
/// Those that are wrong by themselves, and that a stage is computed from.
std::vector<int> wrong_before(const DeclaredKernel& kernel, int stage);

/// Of the stage that is looked at, and the element at the cursor.
std::vector<StageDim> dims_shown(const App& app);
std::vector<std::int64_t> index_shown(const App& app);
Sheet sheet_shown(const App& app);
/// Rows and columns of the sheet, and the cursor among them.
PlaneShape shape_of_sheet(const App& app);
PlanePoint point_in_sheet(const App& app);
/// The element at a row and column of the sheet.
std::vector<std::int64_t> index_at(const App& app, const PlanePoint& point);
PlaneView view_of_sheet(const App& app);
/// The chosen one, and its reference; in place of those of a replay the quotient, and of a stage that was not stored what is expected.
Quantity quantity_of_sheet(const App& app);
/// Against the reference on screen. Null until they are there, and where they are refused.
std::shared_ptr<const StageValues> ask_values(App& app, int stage);
/// The same of the sheet.
std::shared_ptr<const Pyramid> ask_picture_of_sheet(App& app, Quantity quantity);
/// What selected_rect() has of the sheet.
SheetPart selected_part(const App& app);
/// In their place.
std::string why_no_values(App& app, int stage);

void select_declared_stage(App& app, int stage);
/// By stages of the program, round and round.
void step_declared_stage(App& app, int step);
/// `keep_ranges`: moves the view only as far as is needed.
void go_to_declared(App& app, int stage, const std::vector<std::int64_t>& index, bool keep_ranges);
void select_in_sheet(App& app, const PlanePoint& point);
void move_in_sheet(App& app, std::int64_t rows, std::int64_t cols);
/// By blocks of the axes.
void move_by_blocks(App& app, std::int64_t rows, std::int64_t cols);
/// Along a dimension of the stage that is no row and no column, round and round.
void step_dim(App& app, std::size_t dim, int step);
/// The same of the blocks of its state, or of all its other axes together.
void step_blocks(App& app, int step);
void step_leading(App& app, int step);
/// The worst element of the first wrong stage; false where nothing diverges.
bool go_to_first_wrong(App& app);
/// To the next (1) or previous (-1) of the worst elements of the stage.
void walk_worst(App& app, int step);

void fit_sheet(App& app);
void centre_sheet(App& app);
/// What is at (row, col) stays where it is; of zoom_sheet_by() the element.
void zoom_sheet(App& app, double factor, double row, double col);
void zoom_sheet_by(App& app, double factor);
void zoom_sheet_to_element(App& app);
void pan_sheet(App& app, double rows, double cols);
/// By eighths of what is shown.
void pan_sheet_by(App& app, double rows, double cols);

/// "acc:37,51,1", as --goto has it: indices of the axes, then the block of a state.
std::string declared_coordinates(const App& app, const std::vector<std::int64_t>& index);
/// "acc[n 37, m 51] after block 1 of k".
std::string declared_place(const App& app, const std::vector<std::int64_t>& index);
/// Errors are shown at the bottom; then false.
bool go_to_declared_text(App& app, const std::string& text);

}  // namespace tilescope::viewer
