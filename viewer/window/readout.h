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
    /// The same of a panel: those can be written as pictures.
    void place_panel(const std::string& name, const Box& box) {
        place(name, box);
        drawn_panels_.push_back(name);
    }

    /// Of the frame that was finished last.
    const std::string& text() const { return shown_; }
    const Box* find(const std::string& name) const;
    const std::vector<std::string>& panels() const { return panels_; }
    /// The panel at a place; empty for none.
    std::string panel_at(float x, float y) const;

 private:
    std::string drawn_;
    std::string shown_;
    std::map<std::string, Box> drawn_boxes_;
    std::map<std::string, Box> boxes_;
    std::vector<std::string> drawn_panels_;
    std::vector<std::string> panels_;
};

}  // namespace tilescope::viewer
