#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "viewer/state/app.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

/// A line of a script.
struct ScriptStep {
    int line = 0;
    std::string command;
    std::vector<std::string> arguments;
    std::string rest;  ///< all of the arguments, as written
};

/// Reads a script: a step a line, '#' begins a comment.
///   key N            presses and releases; key_down and key_up do one of them
///   type TEXT        characters
///   click X Y        presses and releases the left button; click_right the right one
///   move X Y         moves the pointer
///   drag X Y X Y     with the left button held; drag_right with the right one
///   scroll X Y N     turns the wheel by N
///   drop FILE...     drops files
///   resize W H       of the window
///   wait             until everything that the window shows is there
///   await TEXT       until the window shows the text
///   frames N         lets so many frames pass
///   expect TEXT      fails unless the window shows the text; expect_not fails if it does; \n ends a line
///   listen           takes what a person does, too
///   time             forgets how long frames took so far
///   screenshot FILE  writes the window as PNG
///   picture PANEL FILE      writes a part of it, such as heatmap, map_picture or element
///   expect_clipboard TEXT   fails unless the clipboard holds the text; expect_title that of the window
/// A place is two numbers, or PANEL:FX FY: shares of a panel's width and height, as in "map:0.5 0.5".
/// Errors: Error naming the line for what is none of these.
std::vector<ScriptStep> read_script(const std::string& path);

/// Plays a script, a step after the other, by events that go the way of real ones.
class ScriptPlayer {
 public:
    ScriptPlayer(std::string path, std::vector<ScriptStep> steps)
        : path_(std::move(path)), steps_(std::move(steps)) {}

    /// Called before each frame; feeds the window. Errors: Error where an expectation fails, and where
    /// nothing comes to rest within `patience` seconds.
    void advance(App& app, Window& window);
    bool done() const {
        return next_ >= steps_.size() && picture_.path.empty() && frames_left_ == 0 && !waits();
    }
    /// The part of this frame that is to be written; the path is empty for none.
    PanelPicture take_picture() { return std::exchange(picture_, {}); }

    /// Whether this frame is one of those that pass until what a step waits for is there.
    bool waits() const { return waits_ || !awaited_.empty(); }
    /// Whether the frames before this one are not to be timed.
    bool take_time() { return std::exchange(times_anew_, false); }

    static constexpr double patience = 120;

 private:
    void play(const ScriptStep& step, App& app, Window& window);
    void play_pointer(const ScriptStep& step, const App& app, Window& window);
    Box box_named(const ScriptStep& step, const App& app, std::string name) const;
    void check_text(const ScriptStep& step, const App& app) const;
    bool at_rest(const App& app, const Window& window) const;
    [[noreturn]] void fail(const ScriptStep& step, const std::string& what) const;

    std::string path_;
    std::vector<ScriptStep> steps_;
    std::size_t next_ = 0;
    int frames_left_ = 2;  ///< before the next step
    int calm_frames_ = 0;
    double calm_since_ = 0;
    std::uint64_t version_ = 0;
    bool waits_ = false;
    std::string awaited_;
    double waited_since_ = -1;
    PanelPicture picture_;
    bool times_anew_ = false;
};

}  // namespace tilescope::viewer
