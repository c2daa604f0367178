#include "dump/recording.h"

namespace tilescope {

bool Recording::has_inputs() const {
    for (int i = 0; i < input_count; ++i) {
        const auto input = static_cast<Input>(i);
        if (requires_input(problem().direction, input) && !has_input(input)) return false;
    }
    return true;
}

const ThreadLayouts& Recording::threads() const {
    static const ThreadLayouts undeclared;
    return undeclared;
}

}  // namespace tilescope
