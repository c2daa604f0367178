#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "viewer/state/app.h"
#include "viewer/state/script_steps.h"
#include "viewer/window/window.h"

namespace tilescope::viewer {

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
    std::uint64_t version_ = 0;
    bool waits_ = false;
    std::string awaited_;
    double waited_since_ = -1;
    PanelPicture picture_;
    bool times_anew_ = false;
};

}  // namespace tilescope::viewer
