#pragma once

#include <utility>
#include <vector>

#include "dump/hook/write.h"
#include "dump/recording/array_shape.h"
#include "dump/recording/tile_statistics.h"

namespace tilescope::test {

/// The input as it lies in global memory; empty where the recording has none.
inline std::vector<std::byte> input_bits(const Recording& recording, Input input, Dtype dtype) {
    if (!recording.has_input(input)) return {};
    const Problem& problem = recording.problem();
    const ArrayShape shape = input_shape(problem, input);
    const std::size_t bytes = std::size_t(dtype_info(dtype).bytes);
    std::vector<float> head(std::size_t(shape.rows * shape.cols));
    std::vector<std::byte> bits;
    for (std::int64_t i = 0; i < problem.batch * shape.heads; ++i) {
        recording.read_input(input, i / shape.heads, i % shape.heads, 0, shape.rows, head);
        for (const float value : head) {
            const std::uint32_t word = encode(dtype, value);
            const auto* const first = reinterpret_cast<const std::byte*>(&word);
            bits.insert(bits.end(), first, first + bytes);
        }
    }
    return bits;
}

/// Hooks that keep statistics of every element that the recording holds.
inline StatisticsRun statistics_of(const Recording& recording) {
    const Problem& problem = recording.problem();
    CapturePlan plan(problem, Selection(), std::size_t(1) << 30, SinkMode::statistics);
    std::vector<std::byte> memory(plan.bytes());
    plan.fill_unwritten(memory.data());
    const Sink sink = plan.sink(memory.data());
    for (const StageInfo& info : stages_of(problem.direction)) {
        const TileShape shape = tile_shape(problem, info.stage);
        std::vector<float> values(std::size_t(shape.elements()));
        for (std::int64_t i = 0; i < tile_count(problem, info.stage); ++i) {
            const TileId tile = tile_at(problem, info.stage, i);
            if (!recording.read_tile(info.stage, tile, values)) continue;
            const HookBlock block = hook_block(sink, int(tile.batch), int(tile.head), int(tile.q_block));
            for (std::int64_t at = 0; at < shape.elements(); ++at) {
                const float value = values[std::size_t(at)];
                if (is_unwritten(value)) continue;
                hook_value(block, info.stage, int(tile.kv_tile), int(at / shape.cols), int(at % shape.cols),
                           value);
            }
        }
    }
    InputArrays inputs = {input_bits(recording, Input::q, problem.dtype_q),
                          input_bits(recording, Input::k, problem.dtype_k),
                          input_bits(recording, Input::v, problem.dtype_v)};
    if (problem.direction == Direction::backward) {
        inputs.dout = input_bits(recording, Input::dout, problem.dtype_dout);
        inputs.o = input_bits(recording, Input::o, problem.dtype_o);
        inputs.lse = input_bits(recording, Input::lse, Dtype::f32);
    }
    RecordedCall call(problem, recording.units(), Provenance(), std::move(inputs));
    call.set_side_inputs(recording.side_inputs());
    if (recording.has_bias()) {
        Bias bias{problem.batch, problem.heads, problem.seqlen_q, problem.seqlen_kv, {}};
        std::vector<float> row(std::size_t(problem.seqlen_kv));
        for (std::int64_t i = 0; i < problem.batch * problem.heads * problem.seqlen_q; ++i) {
            const std::int64_t head = i / problem.seqlen_q;
            recording.read_bias(head / problem.heads, head % problem.heads, i % problem.seqlen_q, 0, row);
            bias.values.insert(bias.values.end(), row.begin(), row.end());
        }
        call.set_bias(std::move(bias));
    }
    return {std::move(plan), std::move(memory), std::move(call)};
}

}  // namespace tilescope::test
