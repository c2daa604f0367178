#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "viewer/session/session.h"
#include "viewer/state/bad_places.h"
#include "viewer/state/declared.h"
#include "viewer/state/file_list.h"
#include "viewer/state/history.h"
#include "viewer/state/ranks.h"
#include "viewer/state/settings.h"
#include "viewer/state/show_me.h"
#include "viewer/state/source_text.h"
#include "viewer/state/thread_groups.h"
#include "viewer/state/view_state.h"
#include "viewer/state/visits.h"
#include "viewer/state/watch.h"
#include "viewer/window/cell_picture.h"
#include "viewer/window/drift_picture.h"
#include "viewer/window/heatmap_pane.h"
#include "viewer/window/map_picture.h"
#include "viewer/window/readout.h"
#include "viewer/window/tint.h"

namespace tilescope::viewer {

/// What the middle of the window shows of the chosen stage.
enum class Layout : std::uint8_t {
    single,   ///< one quantity
    compare,  ///< dumped, expected, difference, difference / budget side by side
    stages    ///< s, p, acc and o of the same rows
};
inline constexpr int layout_count = 3;
std::string_view to_string(Layout layout);

/// The tabs under the element on the right. The last three are shown where the window has no room for them at
/// the bottom and on the left.
enum class Tab : std::uint8_t { row, drift, histogram, budget, causes, source, history, map, bad_rows };
inline constexpr int tab_count = 9;
std::string_view to_string(Tab tab);

/// The part of the map that is seen: pixels of the grid, whose heads are so many times as large as they would fit.
struct MapView {
    double zoom = 1;
    float left = 0;
    float top = 0;
    std::array<std::int64_t, 5> followed{-1};  ///< stage, batch, head, q block and KV tile of the cursor
};

/// The state of the view. Panels read and change it; nothing of it is computed from values.
struct ViewState {
    Stage stage = Stage::s;
    Quantity quantity = Quantity::over_budget;  ///< of the stages before, or of a replay
    Reference against = Reference::local;       ///< that `quantity` is shown against: local or end to end
    Layout layout = Layout::single;
    Tab tab = Tab::row;
    Cursor cursor;
    ViewRanges ranges;
    MapView map;
    std::optional<Rect> region;                   ///< of the stage's plane, chosen with the right button
    std::size_t cause = 0;                        ///< that quantities of a replay are of
    ThreadGroup coloured_by = ThreadGroup::none;  ///< elements of a heatmap
    ThreadGroup alone = ThreadGroup::none;        ///< those of the cursor's group are lit, the others dim
    bool flipped = false;                         ///< the key that shows what is expected is held
    bool to_replay = false;                       ///< with the one that shows the replay in its place
};

struct BadSort {
    BadColumn column = BadColumn::batch;
    bool descending = false;
};

/// The table of bad rows or tiles.
struct BadTable {
    BadList list;
    BadList found;                 ///< that `places` are of
    std::vector<BadPlace> places;  ///< sorted
    std::vector<BadPlace> rows;    ///< those of ranges, and of rows, in order
    std::array<BadSort, listed_count> sorts = {
        {{BadColumn::worst, true}, {BadColumn::batch, false}, {BadColumn::batch, false}}};
    std::optional<Stage> followed;  ///< on screen when the list's stage was chosen
    bool by_tile = false;           ///< the kind is that of the rows' tiles: their own is not known
    bool complete = true;           ///< false: kinds of rows are still looked up
    bool sort_next = false;         ///< asked for by key: the next column, the other way round after the last
    std::uint64_t generation = 0;   ///< of the document, map and report that `places` are from
    std::uint64_t map_version = 0;
    bool had_report = false;

    BadSort& sort(const Problem& problem) { return sorts[std::size_t(listed_of(problem, list))]; }
};

/// What a file is to be written from, once it is there.
struct PendingExport {
    std::variant<Plane, SheetPart> of;
    Quantity quantity = Quantity::dumped;
    Rect rect;
    std::string path;
};

/// A pane's tint, made again only where something about it changed.
struct KeptTint {
    std::uint64_t generation = 0;
    Plane plane;
    PlaneView view;
    ThreadGroup coloured_by = ThreadGroup::none;
    ThreadGroup alone = ThreadGroup::none;
    std::optional<Owner> owner;  ///< of the cursor's element, where its group is alone
    std::shared_ptr<const Tint> tint;
    bool operator==(const KeptTint&) const = default;
};

/// A part of the window to be written as PNG when the frame is drawn.
struct PanelPicture {
    Box box;
    std::string path;
};

struct Command;

/// The list of commands that is searched by typing.
struct CommandSearch {
    bool shown = false;
    std::array<char, 64> input{};
    std::size_t chosen = 0;  ///< of those that are left
};

/// Everything that lasts longer than a frame.
struct App {
    explicit App(SessionOptions options, Settings loaded)
        : session(options), run_session(options), settings(std::move(loaded)) {}

    Session session;
    RunSession run_session;
    Settings settings;
    Readout readout;
    ViewState view;

    // Of the current frame.
    std::shared_ptr<const Document> document;  ///< null: no recording of attention is open
    Status status;
    bool waits = false;             ///< a panel shows something that is not there yet
    bool map_is_behind = false;     ///< the map is drawn anew in a moment
    bool pictures_at_once = false;  ///< the frame is kept: its heatmaps are waited for

    std::string goto_text;     ///< where to go once a recording is open; empty: to the first divergence
    std::string goto_refused;  ///< why there is no such place
    std::uint64_t shown_generation = 0;
    std::pair<std::string, std::string> shown_files;
    std::optional<Problem> shown_problem;
    bool placed_by_report = false;  ///< or by somebody: the report does not move the view any more
    std::string notice;             ///< what the last command did, until something else is done
    bool show_help = false;
    bool show_recent = false;
    bool show_goto = false;
    CommandSearch search;
    ShowMe show_me;
    SourceView source;
    FileList files;
    const Command* chosen_command = nullptr;  ///< in a menu: it runs at the next frame
    std::array<char, 128> goto_input{};
    bool quit = false;
    std::uint64_t seen_changes = 0;  ///< of the file, after which it was read again
    std::optional<std::pair<std::int64_t, std::int64_t>> hovered;  ///< row, column of the stage's plane
    Stage hovered_stage = Stage::s;
    /// The pointer moved after the cursor did: panels describe what is under it.
    bool pointer_leads = false;
    std::vector<DetailTiles> shown_details;  ///< that the heatmaps of this frame asked for
    Scale shown_scale;                       ///< of the chosen quantity, in the frame before

    RanksView ranks;
    DeclaredView declared;
    Visits visits;
    Watch watch;
    BadTable bad;
    /// The row or tile that was gone to, until its first element that diverges is known.
    std::optional<std::pair<BadList, BadPlace>> aim;
    std::optional<PendingExport> npy;
    std::string png;                     ///< path to write the heatmaps to, at the next frame
    std::vector<PanelPicture> pictures;  ///< to be written of this frame
    bool narrow = false;                 ///< map and table stand among the tabs

    std::array<HeatmapPane, 4> panes;
    std::array<KeptTint, 4> tints;
    MapPicture map_picture;
    CellPicture rank_picture;
    /// Batch, head, q block and KV tile under the pointer.
    std::optional<std::array<std::int64_t, 4>> map_pointed;
    DriftPicture drift;
    HistoryView history;

    const Problem& problem() const { return document->problem(); }
    /// A recording of attention is on screen.
    bool shows_recording() const { return document != nullptr && !ranks.shown; }
    /// One of a declared kernel is.
    bool shows_declared() const { return declared.document != nullptr && !ranks.shown; }
    bool shows_anything() const { return document != nullptr || declared.document != nullptr || ranks.shown; }
    /// Changes whenever something new can be shown.
    std::uint64_t version() const { return session.version() + run_session.version(); }
    bool has(Stage stage) const { return document->recording->has_stage(stage); }
};

/// Takes the session's state at the beginning of a frame: a new document is shown at the place asked for, and
/// at the first divergence once there is a report, unless somebody went elsewhere meanwhile.
void follow_document(App& app);

/// Opens what was dropped or asked for. One path: against the oracle, or a folder with a run of several ranks; two: against each other.
void open_paths(App& app, const std::vector<std::string>& paths);

/// Puts what was opened first among the recent files.
void remember_opened(App& app, const std::string& path, const std::string& other = "");

/// Goes to an element and shows it. `keep_ranges`: moves the view only as far as is needed.
void go_to(App& app, Stage stage, const Cursor& cursor, bool keep_ranges);
/// To the guilty stage, batch, head and element; false where nothing diverges.
bool go_to_first_divergence(App& app);
/// Errors are shown at the bottom; then false.
bool go_to_text(App& app, const std::string& text);
void select_stage(App& app, Stage stage);
/// Everything against what the stages before give, or what the inputs alone give.
void choose_reference(App& app, Reference against);

/// Finds the table's places again where report, map or filter changed.
void update_bad_table(App& app);
/// To the row or tile, and to its first element that diverges as soon as that is known.
void go_to_bad(App& app, const BadList& list, const BadPlace& place);
/// To the next (step 1) or previous (-1) bad row or tile from the cursor on; the last one is followed by the
/// first. A stage without any gives way to the first one that diverges.
void walk_bad(App& app, bool tiles, int step);
/// The same for heads.
void walk_bad_heads(App& app, int step);

/// The element of the stage's plane at the cursor, in coordinates of the tensor.
ElementPlace selected_element(const App& app);
/// STAGE,BATCH,HEAD,ROW,COL[,KV_TILE]
std::string coordinates_of(const Problem& problem, const ElementPlace& place);
/// The command that explains the element; of two recordings, the one that compares them; of ranks and steps, the one that judges them.
std::string tile_diff_command(const App& app);
/// The command that opens tile-view at the element, or at the rank and step.
std::string tile_view_command(const App& app);
/// Tabs that have something to show: of two recordings some never have.
bool is_shown(const App& app, Tab tab);
void next_tab(App& app);
/// The last name of a path, of a file or of a folder.
std::string name_of(const std::string& path);
/// What the window is called: the file and what was found of it.
std::string window_title(const App& app);

}  // namespace tilescope::viewer
