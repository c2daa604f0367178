// What --select and TILESCOPE_SELECT are given: it is refused, or means the same once it is written down and read again.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dump/schema/error.h"
#include "dump/schema/selection.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tilescope;
    try {
        const Selection selection = parse_selection({reinterpret_cast<const char*>(data), size}, "--select");
        if (!(parse_selection(to_string(selection), "--select") == selection)) __builtin_trap();
    } catch (const Error&) {
        // Refused.
    }
    return 0;
}
