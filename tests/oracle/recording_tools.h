#pragma once

#include <functional>
#include <vector>

#include "oracle/judge.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// Small recordings are judged faster without a team of threads, above all where several tests run at once.
inline JudgeOptions one_thread() {
    JudgeOptions options;
    options.threads = 1;
    return options;
}

using TileFilter = std::function<bool(Stage stage, const TileId& tile)>;

/// The recording with the tiles that `keep` keeps.
inline MemoryRecording copy_of(const Recording& from, const TileFilter& keep) {
    MemoryRecording copy(from.problem(), from.units());
    copy.set_name(from.name());
    copy.set_provenance(from.provenance());
    copy.set_capture(from.capture());
    for (const StageInfo& info : all_stages()) {
        for (std::int64_t i = 0; i < tile_count(from.problem(), info.stage); ++i) {
            const TileId tile = tile_at(from.problem(), info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(from.problem(), info.stage).elements()));
            if (keep(info.stage, tile) && from.read_tile(info.stage, tile, values))
                copy.set_tile(info.stage, tile, std::move(values));
        }
    }
    const Problem& p = from.problem();
    const auto copy_input = [&](Input input, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
        std::vector<float> values(std::size_t(p.batch * heads * rows * cols));
        for (std::int64_t i = 0; i < p.batch * heads; ++i) {
            from.read_input(
                input, i / heads, i % heads, 0, rows,
                std::span(values).subspan(std::size_t(i * rows * cols), std::size_t(rows * cols)));
        }
        copy.set_input(input, std::move(values));
    };
    copy_input(Input::q, p.heads, p.seqlen_q, p.head_dim);
    copy_input(Input::k, p.heads_kv, p.seqlen_kv, p.head_dim);
    copy_input(Input::v, p.heads_kv, p.seqlen_kv, p.head_dim_v);
    return copy;
}

inline MemoryRecording copy_of(const Recording& from) {
    return copy_of(from, [](Stage, const TileId&) { return true; });
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
