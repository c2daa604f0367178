#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
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

/// The report, also where the judgement ends without a verdict.
inline Report report_of(const Recording& recording, const JudgeOptions& options) {
    try {
        return judge(recording, options);
    } catch (const NoVerdict& unjudged) {
        return unjudged.report();
    }
}

inline MemoryRecording with_stages(const Recording& from, const std::vector<Stage>& stages) {
    return copy_of(from, [&](Stage stage, const TileId&) {
        return std::find(stages.begin(), stages.end(), stage) != stages.end();
    });
}

/// Applies `change` to each value of a stage, with its tile, row and column in it.
template <class Change>
void change_stage(MemoryRecording& recording, Stage stage, const Change& change) {
    const Problem& p = recording.problem();
    const TileShape shape = tile_shape(p, stage);
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        std::vector<float> values(std::size_t(shape.elements()));
        if (!recording.read_tile(stage, tile, values)) continue;
        for (std::int64_t at = 0; at < shape.elements(); ++at)
            values[std::size_t(at)] = change(values[std::size_t(at)], tile, at / shape.cols, at % shape.cols);
        recording.set_tile(stage, tile, std::move(values));
    }
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

/// Least and greatest value that a stage holds.
inline std::pair<float, float> range_of(const Recording& recording, Stage stage) {
    const Problem& p = recording.problem();
    std::pair<float, float> range{std::numeric_limits<float>::infinity(),
                                  -std::numeric_limits<float>::infinity()};
    for (std::int64_t i = 0; i < tile_count(p, stage); ++i) {
        const TileId tile = tile_at(p, stage, i);
        if (!recording.has_tile(stage, tile)) continue;
        const TileShape extent = tile_extent(p, stage, tile);
        for (std::int64_t row = 0; row < extent.rows; ++row) {
            for (std::int64_t col = 0; col < extent.cols; ++col) {
                const float value = peek(recording, stage, tile, row, col);
                range = {std::min(range.first, value), std::max(range.second, value)};
            }
        }
    }
    return range;
}

}  // namespace tilescope::test
