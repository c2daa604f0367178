// Named tiles from a kernel on a GPU: recorded, selected, kept in a file.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "dump/capture.h"
#include "dump/reader.h"
#include "tests/dump/named_run.h"
#include "tests/dump/played_kernel.cuh"

namespace tilescope {
namespace {

using namespace test;

using NamedGpu = CapturesOnGpu;
INSTANTIATE_TEST_SUITE_P(Memory, NamedGpu,
                         testing::Values(SinkMemory::device, SinkMemory::mapped, SinkMemory::file), name_of);

/// A thread block for each query block; those of query block 0 and the first heads write what is of a KV
/// head.
__global__ void play_named(TILESCOPE_GRID_CONSTANT const Sink sink) {
    const TileId id = {blockIdx.z, blockIdx.y, blockIdx.x, 0};
    play_named_block(id, int(threadIdx.x), int(blockDim.x) TILESCOPE_SINK_ARG(sink));
    if (id.q_block == 0 && id.head < 3)
        play_named_head(id, int(threadIdx.x), int(blockDim.x) TILESCOPE_SINK_ARG(sink));
}

CaptureOptions named_options(SinkMemory memory, const char* selection) {
    CaptureOptions options = options_of(memory);
    options.selection = parse_selection(selection, "test", named_problem().named_tiles);
    return options;
}

TEST_P(NamedGpu, RecordsEveryNamedTile) {
    const CaptureOptions options = named_options(GetParam(), "");
    Capture capture(named_problem(), options);
    play_named<<<all_blocks, 64>>>(capture.sink());
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, "completed");
    EXPECT_EQ(expect_named(run, *options.selection), named_elements);
}

TEST_P(NamedGpu, SavesWhatIsSelected) {
    const CaptureOptions options = named_options(GetParam(), "head=4:stage=keep,mean_k");
    Capture capture(named_problem(), options);
    play_named<<<all_blocks, 64>>>(capture.sink());
    const std::string path = sink_file() + ".h5";
    capture.save(path);
    const auto opened = open_recording(path);
    std::filesystem::remove(path);
    EXPECT_EQ(opened->problem().named_tiles, named_problem().named_tiles);
    // Of 2 batches: 10 rows by 13 keys of head 4, and 13 keys of 6 features of the KV head that it reads.
    EXPECT_EQ(expect_named(*opened, *options.selection), 2 * (10 * 13 + 13 * 6));
}

/// The rank's rows are the last of more that stand together.
TEST_P(NamedGpu, KeepsWhatTheRankHasMerged) {
    Shard shard;
    shard.ranks = 2;
    shard.rank = 1;
    shard.seqlen_q = shard.seqlen_kv = 30;
    const Problem problem = with_shard(small_problem(), shard);
    const std::int64_t rows = problem.seqlen_q + 3;
    const std::int64_t heads = problem.batch * problem.heads;
    const std::int64_t cols = problem.head_dim_v;
    float* o = nullptr;
    float* lse = nullptr;
    ASSERT_EQ(cudaMallocManaged(&o, std::size_t(heads * rows * cols) * sizeof(float)), cudaSuccess);
    ASSERT_EQ(cudaMallocManaged(&lse, std::size_t(heads * rows) * sizeof(float)), cudaSuccess);
    for (std::int64_t i = 0; i < heads * rows * cols; ++i) o[i] = float(i);
    for (std::int64_t i = 0; i < heads * rows; ++i) lse[i] = -float(i);

    CaptureOptions options = options_of(GetParam());
    options.provenance.run = "a run";
    Capture capture(problem, options);
    capture.merged({o + 3 * cols, problem.heads * rows * cols, rows * cols, cols},
                   {lse + 3, problem.heads * rows, rows, 1});
    const std::string path = sink_file() + ".h5";
    capture.save(path);
    const auto opened = open_recording(path);
    EXPECT_EQ(run_of(path), "a run");
    std::filesystem::remove(path);
    EXPECT_EQ(opened->problem(), problem);
    std::vector<float> tile(std::size_t(problem.block_m * cols));
    for (std::int64_t head = 0; head < heads; ++head) {
        for (std::int64_t row = 0; row < problem.seqlen_q; ++row) {
            const TileId id = {head / problem.heads, head % problem.heads, row / problem.block_m, 0};
            const std::int64_t at = head * rows + 3 + row;
            ASSERT_TRUE(opened->read_tile(Stage::named0, id, tile));
            for (std::int64_t col = 0; col < cols; ++col)
                ASSERT_EQ(tile[std::size_t(row % problem.block_m * cols + col)], float(at * cols + col));
            ASSERT_TRUE(
                opened->read_tile(Stage::named1, id, Span<float>(tile.data(), std::size_t(problem.block_m))));
            ASSERT_EQ(tile[std::size_t(row % problem.block_m)], -float(at));
        }
    }
    cudaFree(o);
    cudaFree(lse);
    Capture without(small_problem(), CaptureOptions());
    EXPECT_THROW(without.merged(nullptr, nullptr), Error);
}

}  // namespace
}  // namespace tilescope
