#pragma once

#include <functional>
#include <vector>

#include "tests/support/memory_recording.h"

namespace tilescope::test {

using TileFilter = std::function<bool(Stage stage, const TileId& tile)>;

inline std::vector<float> whole_input(const Recording& from, Input input) {
    const Problem& p = from.problem();
    const auto [heads, rows, cols, dtype] = input_shape(p, input);
    std::vector<float> values(std::size_t(p.batch * heads * rows * cols));
    for (std::int64_t i = 0; i < p.batch * heads; ++i) {
        from.read_input(input, i / heads, i % heads, 0, rows,
                        std::span(values).subspan(std::size_t(i * rows * cols), std::size_t(rows * cols)));
    }
    return values;
}

inline Bias whole_bias(const Recording& from) {
    const Problem& p = from.problem();
    Bias bias{p.batch, p.heads, p.seqlen_q, p.seqlen_kv, {}};
    bias.values.resize(std::size_t(p.batch * p.heads * p.seqlen_q * p.seqlen_kv));
    for (std::int64_t line = 0; line < p.batch * p.heads * p.seqlen_q; ++line) {
        from.read_bias(
            line / (p.heads * p.seqlen_q), line / p.seqlen_q % p.heads, line % p.seqlen_q, 0,
            std::span(bias.values).subspan(std::size_t(line * p.seqlen_kv), std::size_t(p.seqlen_kv)));
    }
    return bias;
}

/// A recording that can be changed, with everything of `from` but the tiles that `keep` does not keep.
inline MemoryRecording copy_of(const Recording& from, const TileFilter& keep) {
    MemoryRecording copy(from.problem(), from.units());
    copy.set_name(from.name());
    copy.set_provenance(from.provenance());
    copy.set_capture(from.capture());
    copy.set_threads(from.threads());
    copy.set_side_inputs(from.side_inputs());
    if (from.has_bias()) copy.set_bias(whole_bias(from));
    for (const StageInfo& info : stages_of(from.problem())) {
        for (std::int64_t i = 0; i < tile_count(from.problem(), info.stage); ++i) {
            const TileId tile = tile_at(from.problem(), info.stage, i);
            std::vector<float> values(std::size_t(tile_shape(from.problem(), info.stage).elements()));
            if (keep(info.stage, tile) && from.read_tile(info.stage, tile, values))
                copy.set_tile(info.stage, tile, std::move(values));
        }
    }
    for (const Input input : {Input::q, Input::k, Input::v, Input::dout, Input::o, Input::lse}) {
        if (from.has_input(input)) copy.set_input(input, whole_input(from, input));
    }
    return copy;
}

inline MemoryRecording copy_of(const Recording& from) {
    return copy_of(from, [](Stage, const TileId&) { return true; });
}

}  // namespace tilescope::test
