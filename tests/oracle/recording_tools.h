#pragma once

#include <functional>
#include <vector>

#include "oracle/judge.h"
#include "tests/support/copied_recording.h"

namespace tilescope::test {

/// Small recordings are judged faster without a team of threads, above all where several tests run at once.
inline JudgeOptions one_thread() {
    JudgeOptions options;
    options.threads = 1;
    return options;
}

inline MemoryRecording with_stages(const Recording& from, const std::vector<Stage>& stages) {
    return copy_of(from, [&](Stage stage, const TileId&) {
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
    });
}

/// Changes one element, given by its place in the tile.
inline void poke(MemoryRecording& recording, Stage stage, const TileId& tile, std::int64_t row,
                 std::int64_t col, float value) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    std::vector<float> values(std::size_t(shape.elements()));
    if (!recording.read_tile(stage, tile, values)) throw std::invalid_argument("poke: no such tile");
    values[std::size_t(row * shape.cols + col)] = value;
    recording.set_tile(stage, tile, std::move(values));
}

inline float peek(const Recording& recording, Stage stage, const TileId& tile, std::int64_t row,
                  std::int64_t col) {
    const TileShape shape = tile_shape(recording.problem(), stage);
    std::vector<float> values(std::size_t(shape.elements()));
    if (!recording.read_tile(stage, tile, values)) throw std::invalid_argument("peek: no such tile");
    return values[std::size_t(row * shape.cols + col)];
}

}  // namespace tilescope::test
