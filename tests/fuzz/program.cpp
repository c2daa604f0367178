// The text of a program, as a recording or Python hands it in.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dump/schema/error.h"
#include "dump/schema/program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        const tilescope::Program program =
            tilescope::parse_program({reinterpret_cast<const char*>(data), size});
        for (const tilescope::ProgramArray& array : program.arrays) {
            if (array.is_stage) tilescope::program_text(program, array.value);
        }
    } catch (const tilescope::Error&) {}
    return 0;
}
