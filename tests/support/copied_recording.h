#pragma once

#include <vector>

#include "tests/support/memory_recording.h"

namespace tilescope::test {

/// A copy of any recording that can be changed.
inline MemoryRecording copied_recording(const Recording& from) {
    const Problem& p = from.problem();
    MemoryRecording to(p, from.units());
    to.set_provenance(from.provenance());
    to.set_capture(from.capture());
    to.set_side_inputs(from.side_inputs());
    for (const StageInfo& info : all_stages()) {
        for (std::int64_t i = 0; i < tile_count(p, info.stage); ++i) {
            const TileId tile = tile_at(p, info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(p, info.stage).elements()));
            if (from.read_tile(info.stage, tile, values)) to.set_tile(info.stage, tile, std::move(values));
        }
    }
    for (const Input input : {Input::q, Input::k, Input::v}) {
        const std::int64_t heads = input == Input::q ? p.heads : p.heads_kv;
        const std::int64_t rows = input == Input::q ? p.seqlen_q : p.seqlen_kv;
        const std::int64_t cols = input == Input::v ? p.head_dim_v : p.head_dim;
        std::vector<float> values(std::size_t(p.batch * heads * rows * cols));
        for (std::int64_t i = 0; i < p.batch * heads; ++i) {
            from.read_input(
                input, i / heads, i % heads, 0, rows,
                std::span(values).subspan(std::size_t(i * rows * cols), std::size_t(rows * cols)));
        }
        to.set_input(input, std::move(values));
    }
    return to;
}

}  // namespace tilescope::test
