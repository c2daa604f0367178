#include "viewer/window/readout.h"

#include <utility>

namespace tilescope::viewer {

void Readout::begin_frame() {
    shown_ = std::exchange(drawn_, {});
    boxes_ = std::exchange(drawn_boxes_, {});
    panels_ = std::exchange(drawn_panels_, {});
}

const Box* Readout::find(const std::string& name) const {
    const auto found = boxes_.find(name);
    return found == boxes_.end() ? nullptr : &found->second;
}

std::string Readout::panel_at(float x, float y) const {
    for (const std::string& name : panels_) {
        const Box& box = boxes_.at(name);
        if (x >= box.x && y >= box.y && x < box.x + box.width && y < box.y + box.height) return name;
    }
    return {};
}

}  // namespace tilescope::viewer
