#include "viewer/readout.h"

#include <utility>

namespace tilescope::viewer {

void Readout::begin_frame() {
    shown_ = std::exchange(drawn_, {});
    boxes_ = std::exchange(drawn_boxes_, {});
}

const Box* Readout::find(const std::string& name) const {
    const auto found = boxes_.find(name);
    return found == boxes_.end() ? nullptr : &found->second;
}

}  // namespace tilescope::viewer
