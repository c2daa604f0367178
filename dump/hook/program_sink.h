#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "dump/hook/sink.h"

namespace tilescope {

/// Most dimensions of a stage: the axes of a program, and the blocks of one before them.
inline constexpr int program_dims = 17;
inline constexpr int program_stages = 64;

/// One dimension of a stage, and the part of it that is recorded.
struct ProgramRoomDim {
    std::int32_t extent = 0;
    /// Where its last block would end: indices between are tails, which are left out. Others are counted.
    std::int32_t padded = 0;
    std::int32_t first = 0;
    std::int32_t count = 0;
};

/// Hooks of one stage whose lines are kept.
inline constexpr unsigned program_hooks = 16;

/// Room for a stage, in memory that the kernel can write.
struct ProgramRoom {
    std::uint32_t* words = nullptr;  ///< bits of float32 of the part that is recorded, row-major
    ProgramRoomDim dims[program_dims] = {};
    unsigned long long conflicts = 0;  ///< writes that changed an element already written
    unsigned long long outside = 0;    ///< elements that the stage does not have
    std::int32_t first_outside[program_dims] = {};
    SinkHook hooks[program_hooks];  ///< as in SinkCounters; their stage says nothing
};

/// Where hooks of a declared kernel write: a plain value, which a kernel gets as its parameter.
struct ProgramSink {
    std::uint64_t stages = 0;      ///< a bit for each stage that is recorded, in the order of the text
    ProgramRoom* rooms = nullptr;  ///< of each stage
};

/// As sink_from(), of the bytes that tilescope.Program.recorder() passes on.
inline ProgramSink program_sink_from(const void* bytes, std::size_t size) {
    ProgramSink sink;
    if (size != 0 && size != sizeof sink)
        throw std::invalid_argument(
            "these are not the bytes of a tilescope::ProgramSink: compile with -I of tilescope.include() of "
            "the "
            "package that made them");
    if (size != 0) std::memcpy(&sink, bytes, size);
    return sink;
}

}  // namespace tilescope
