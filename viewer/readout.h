#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tilescope::viewer {

/// A rectangle of the window, in its units.
struct Box {
    float x = 0;
    float y = 0;
    float width = 0;
    float height = 0;
};

/// What the last whole frame showed, as text and places: scripts look things up in it, and point at panels
/// by name.
class Readout {
 public:
    void begin_frame();
    void add(std::string_view text) { drawn_.append(text).append("\n"); }
    void place(const std::string& name, const Box& box) { drawn_boxes_[name] = box; }

    /// Of the frame that was finished last.
    const std::string& text() const { return shown_; }
    const Box* find(const std::string& name) const;

 private:
    std::string drawn_;
    std::string shown_;
    std::map<std::string, Box> drawn_boxes_;
    std::map<std::string, Box> boxes_;
};

}  // namespace tilescope::viewer
