#include "dump/schema/element_writer.h"

#include <limits>

namespace tilescope {

std::string to_string(const ElementWriter& writer) {
    if (writer.writes == 0) return "written by no hook";
    constexpr int warp = 32;
    const int thread = writer.first_thread;
    const bool many = writer.writes == std::numeric_limits<std::uint16_t>::max();
    return "written " + std::string(many ? "at least " : "") + std::to_string(writer.writes) +
           (writer.writes == 1 ? " time" : " times") + ", first by thread " + std::to_string(thread) +
           " (warp " + std::to_string(thread / warp) + ", lane " + std::to_string(thread % warp) + ")" +
           (writer.several_threads ? ", by others, too" : "");
}

}  // namespace tilescope
