#pragma once

#include <cstdint>
#include <optional>

#include "dump/recording.h"

namespace tilescope {

/// Elements of a stage by who wrote them.
struct WriterCounts {
    std::int64_t repeated = 0;    ///< written more than once
    std::int64_t by_several = 0;  ///< of these, by several threads
};

/// Counts within the tensor and the lengths of each batch entry. Nullopt where the recording does not say
/// who wrote the stage. Errors: those of read_writers().
std::optional<WriterCounts> count_writers(const Recording& recording, Stage stage);

/// An element that was written more than once, by its row and column in its tile.
struct RepeatedElement {
    std::int64_t row = 0;
    std::int64_t col = 0;
    ElementWriter writer;
};

/// The first one of a tile, row by row; nullopt where there is none, or nothing says so. Errors: as above.
std::optional<RepeatedElement> first_repeated(const Recording& recording, Stage stage, const TileId& tile);

}  // namespace tilescope
