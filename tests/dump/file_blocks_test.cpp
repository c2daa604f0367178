// Which query blocks a file says that it holds something of.

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "dump/reader.h"
#include "dump/writer.h"
#include "tests/dump/spoiled_file.h"
#include "tests/support/memory_recording.h"

namespace tilescope::test {
namespace {

using FileBlocks = SpoiledFile;

/// 2 x 3 heads, 20 query blocks and 100 KV tiles of 2 x 2.
Problem many_blocks() {
    Problem problem;
    problem.batch = 2;
    problem.heads = 3;
    problem.heads_kv = 3;
    problem.seqlen_q = 39;
    problem.seqlen_kv = 200;
    problem.head_dim = problem.head_dim_v = 2;
    problem.block_m = problem.block_n = 2;
    return problem;
}

using Chosen = std::function<bool(Stage, const TileId&)>;

MemoryRecording recording_of(const Problem& problem, const std::vector<Stage>& stages, const Chosen& chosen) {
    MemoryRecording recording(problem);
    for (const Stage stage : stages) {
        for (std::int64_t i = 0; i < tile_count(problem, stage); ++i) {
            const TileId tile = tile_at(problem, stage, i);
            if (chosen(stage, tile))
                recording.set_tile(stage, tile,
                                   std::vector<float>(std::size_t(tile_shape(problem, stage).elements()), 1));
        }
    }
    for (const Input input : {Input::q, Input::k, Input::v}) {
        const ArrayShape shape = input_shape(problem, input);
        recording.set_input(
            input, std::vector<float>(std::size_t(problem.batch * shape.heads * shape.rows * shape.cols)));
    }
    return recording;
}

/// Of all query blocks, those that the file may hold something of.
std::vector<std::int64_t> blocks_in(const std::string& path, const Problem& problem) {
    const auto recording = open_recording(path);
    std::vector<std::int64_t> blocks;
    for (std::int64_t i = 0; i < tile_count(problem, Stage::q); ++i) {
        if (recording->may_hold(tile_at(problem, Stage::q, i))) blocks.push_back(i);
    }
    return blocks;
}

TEST_F(FileBlocks, OneBlockIsFoundInEveryStage) {
    const Problem problem = many_blocks();
    for (const Stage stage : {Stage::q, Stage::k, Stage::v, Stage::s, Stage::m, Stage::p, Stage::l,
                              Stage::acc, Stage::o, Stage::lse}) {
        const auto chosen = [](Stage, const TileId& tile) {
            return tile.batch == 1 && tile.head == 2 && tile.q_block == 13;
        };
        write_recording(path, recording_of(problem, {stage}, chosen));
        EXPECT_EQ(blocks_in(path, problem), std::vector<std::int64_t>{(1 * 3 + 2) * 20 + 13})
            << stage_info(stage).name;
    }
}

TEST_F(FileBlocks, BlocksOfAnyStageCount) {
    const Problem problem = many_blocks();
    write_recording(
        path, recording_of(problem, {Stage::s, Stage::m, Stage::o}, [](Stage stage, const TileId& tile) {
            if (stage == Stage::o) return tile.batch == 0 && tile.head == 0 && tile.q_block == 19;
            if (stage == Stage::m) return tile.batch == 0 && tile.head == 1 && tile.q_block == 0;
            return tile.batch == 1 && tile.head == 0 && tile.q_block == 7 && tile.kv_tile == 99;
        }));
    EXPECT_EQ(blocks_in(path, problem), (std::vector<std::int64_t>{19, 20, 67}));
}

/// Asking some chunks where they are finds some of the blocks alone, which the number of chunks tells.
TEST_F(FileBlocks, NoBlockIsLeftOutWhereTheyAreNotKnown) {
    const Problem problem = many_blocks();
    const auto band = [](Stage, const TileId& tile) {
        return tile.kv_tile % 20 == tile.q_block && tile.head == 0;
    };
    for (const Stage stage : {Stage::s, Stage::m}) {
        write_recording(path, recording_of(problem, {stage}, band));
        const std::vector<std::int64_t> blocks = blocks_in(path, problem);
        for (std::int64_t i = 0; i < tile_count(problem, Stage::q); ++i) {
            if (tile_at(problem, Stage::q, i).head != 0) continue;
            EXPECT_TRUE(std::ranges::find(blocks, i) != blocks.end()) << i;
        }
    }
    write_recording(path, recording_of(problem, {Stage::s}, [](Stage, const TileId&) { return true; }));
    EXPECT_EQ(std::ssize(blocks_in(path, problem)), tile_count(problem, Stage::q));
}

}  // namespace
}  // namespace tilescope::test
