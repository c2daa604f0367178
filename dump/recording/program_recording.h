#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dump/recording.h"
#include "dump/schema/comparison.h"
#include "dump/schema/dtype.h"
#include "dump/schema/source_line.h"

namespace tilescope {

/// An array of a declared kernel.
struct ProgramTensor {
    Dtype dtype = Dtype::f32;
    std::vector<std::int64_t> shape{};  ///< empty: one number
    std::vector<std::byte> bits{};      ///< row-major, little-endian and packed
    /// Of a stage of which a part was recorded: index of its first element in each dimension; empty: all of it was.
    std::vector<std::int64_t> first{};
    std::int64_t conflicts = 0;       ///< of a stage: writes that changed an element already written
    std::vector<SourceLine> hooks{};  ///< that recorded it

    TILESCOPE_EQUALITY(ProgramTensor);
};

/// A kernel that is declared, what it was given and what it stored. oracle/PROGRAMS.md has the language of the text.
struct ProgramRecording {
    std::string text{};
    std::map<std::string, std::int64_t> sizes{};  ///< that no shape of an input tells
    std::map<std::string, ProgramTensor> inputs{};
    std::map<std::string, ProgramTensor> stages{};  ///< those that were stored
    Provenance provenance{};
};

}  // namespace tilescope
