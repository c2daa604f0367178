#pragma once

#include <cstdint>
#include <string>

#include "dump/hook/sink.h"
#include "dump/schema/comparison.h"

namespace tilescope {

/// Who wrote an element.
struct ElementWriter {
    std::uint16_t writes = 0;        ///< at most 65535, which stands for more, too; 0: nobody wrote it
    std::uint16_t first_thread = 0;  ///< linear index in its thread block of the thread that wrote first
    bool several_threads = false;    ///< one of another index wrote it, too

    TILESCOPE_EQUALITY(ElementWriter);
};

/// As a sink and a file keep it: see writer_thread in dump/hook/sink.h. Nobody for 0 and for unwritten_bits.
constexpr ElementWriter element_writer(std::uint32_t word) {
    if (word == unwritten_bits || word < writer_once) return {};
    return {std::uint16_t(word / writer_once), std::uint16_t(word & writer_thread),
            (word & writer_several) != 0};
}

/// As a file keeps it.
constexpr std::uint32_t writer_word(const ElementWriter& writer) {
    if (writer.writes == 0) return 0;
    return writer.writes * writer_once | (writer.several_threads ? writer_several : 0) | writer.first_thread;
}

/// "written 3 times, first by thread 37 (warp 1, lane 5), by others, too".
std::string to_string(const ElementWriter& writer);

}  // namespace tilescope
