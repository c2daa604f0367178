// What tile-view --script is given: it is refused, or a step for each line that is none of comments.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dump/schema/error.h"
#include "tests/fuzz/memory_file.h"
#include "viewer/state/script_steps.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tilescope;
    const fuzz::MemoryFile file("view.script", data, size);
    try {
        const auto steps = viewer::read_script(file.path());
        const auto lines = std::count(data, data + size, '\n') + 1;
        if (std::ssize(steps) > lines) __builtin_trap();
        if (!std::ranges::is_sorted(steps, {}, &viewer::ScriptStep::line)) __builtin_trap();
    } catch (const Error&) {
        // Refused.
    }
    return 0;
}
