// Hooks and capture on a GPU.

#define DEBUG_DUMP
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dump/capture.h"
#include "dump/hook.h"
#include "dump/reader.h"
#include "dump/schema/error.h"
#include "tests/dump/played_kernel.cuh"

namespace tilescope {
namespace {

using namespace test;

using CaptureGpu = CapturesOnGpu;
INSTANTIATE_TEST_SUITE_P(Memory, CaptureGpu,
                         testing::Values(SinkMemory::device, SinkMemory::mapped, SinkMemory::file), name_of);

/// A thread block for each KV tile and head of dk and dv, that walks the query blocks of two query heads.
__global__ void play_backward(const __grid_constant__ Sink sink) {
    const int batch = int(blockIdx.z);
    const int t = int(blockIdx.x);
    for (int walked = 0; walked < 2 * 3; ++walked) {
        const TileId id = {batch, blockIdx.y * 2 + walked / 3, walked % 3, t};
        TILESCOPE_BLOCK(sink, batch, id.head, id.q_block);
        for (int i = int(threadIdx.x); i < 4 * 5; i += int(blockDim.x)) {
            TILESCOPE_VALUE(ds, t, i / 5, i % 5, test::value_of(Stage::ds, id, i / 5, i % 5));
        }
    }
    TILESCOPE_BLOCK(sink, batch, blockIdx.y, 0);
    const TileId id = {batch, blockIdx.y, 0, t};
    for (int i = int(threadIdx.x); i < 5 * 8; i += int(blockDim.x)) {
        TILESCOPE_VALUE(dk, t, i / 8, i % 8, test::value_of(Stage::dk, id, i / 8, i % 8));
    }
    for (int i = int(threadIdx.x); i < 5 * 7; i += int(blockDim.x)) {
        TILESCOPE_VALUE(dv, t, i / 7, i % 7, test::value_of(Stage::dv, id, i / 7, i % 7));
    }
}

__global__ void write_one_element(const __grid_constant__ Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    TILESCOPE_VALUE(m, 0, 0, 0, float(threadIdx.x));
}

/// Thread (col, row, 1) writes its element of s, twice where the column is odd.
__global__ void write_by_place(const __grid_constant__ Sink sink) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    const int row = int(threadIdx.y);
    const int col = int(threadIdx.x);
    if (threadIdx.z != 1 || col >= 5) return;
    for (int write = 0; write <= col % 2; ++write) TILESCOPE_VALUE(s, 0, row, col, 1.0f);
}

__global__ void write_types(const __half* halves, const __nv_bfloat16* bfloats TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    TILESCOPE_TILE(p, 0, halves, 5, int(threadIdx.x), int(blockDim.x));
    TILESCOPE_TILE(s, 0, bfloats, 5, int(threadIdx.x), int(blockDim.x));
}

/// k lies in shared memory feature by feature, 7 elements apart, of which the last 2 are nobody's.
__global__ void stage_transposed(TILESCOPE_GRID_CONSTANT const Sink sink) {
    __shared__ __half staged[8 * 7];
    const int thread = int(threadIdx.x);
    const int threads = int(blockDim.x);
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int i = thread; i < 8 * 7; i += threads) staged[i] = __float2half(float(i % 7 * 8 + i / 7));
    __syncthreads();
    TILESCOPE_TILE(k, 0, transposed(staged), 7, thread, threads);
}

/// A warp replaces a row of scores in shared memory, each lane the elements that it records before and after.
__global__ void softmax_in_place(TILESCOPE_GRID_CONSTANT const Sink sink) {
    __shared__ float row[64];
    const int lane = int(threadIdx.x);
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    for (int i = lane; i < 64; i += 32) row[i] = float(i);
    __syncwarp();
    TILESCOPE_FRAGMENT(s, 0, strided<2>(row + lane, 32), Columns{0, lane, 32});
    for (int i = lane; i < 64; i += 32) row[i] = -row[i];
    TILESCOPE_FRAGMENT(p, 0, strided<2>(row + lane, 32), Columns{0, lane, 32});
}

TEST_P(CaptureGpu, RecordsATransposedTile) {
    Capture capture(test::small_problem(), options_of(GetParam(), "stage=k"));
    stage_transposed<<<1, 64>>>(capture.sink());
    const CapturedRun run = capture.finish();
    std::vector<float> k(5 * 8);
    ASSERT_TRUE(run.read_tile(Stage::k, {}, k));
    for (std::size_t i = 0; i < k.size(); ++i) EXPECT_EQ(k[i], float(i));
}

TEST_P(CaptureGpu, RecordsASoftmaxInPlace) {
    Problem problem;
    problem.seqlen_kv = problem.block_n = 64;
    Capture capture(problem, options_of(GetParam(), "stage=s,p"));
    softmax_in_place<<<1, 32>>>(capture.sink());
    const CapturedRun run = capture.finish();
    std::vector<float> s(64), p(64);
    ASSERT_TRUE(run.read_tile(Stage::s, {}, s));
    ASSERT_TRUE(run.read_tile(Stage::p, {}, p));
    for (std::size_t i = 0; i < s.size(); ++i) {
        EXPECT_EQ(s[i], float(i));
        EXPECT_EQ(p[i], -float(i));
    }
}

TEST_P(CaptureGpu, RecordsEveryStage) {
    const CaptureOptions options = options_of(GetParam());
    Capture capture(test::small_problem(), options);
    launch(capture, all_blocks);
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, "completed");
    EXPECT_EQ(test::expect_played(run, plan_of(options)), test::all_elements);
}

TEST_P(CaptureGpu, RecordsWhatIsSelectedAndHasRoom) {
    CaptureOptions options = options_of(GetParam(), "batch=1:head=0,4:q_block=1-:kv_tile=0,2:stage=q,k,s");
    Capture selected(test::small_problem(), options);
    launch(selected, all_blocks);
    EXPECT_EQ(test::expect_played(selected.finish(), plan_of(options)), 2 * (6 * 8 + 2 * 8 * 8 + 6 * 8));

    options = options_of(GetParam(), "stage=k");
    options.max_bytes = sizeof(SinkCounters::hooks) + 10000;
    Capture small(test::small_problem(), options);
    launch(small, all_blocks);
    const CapturedRun run = small.finish();
    const std::int64_t kept = test::expect_played(run, plan_of(options));
    EXPECT_GT(kept, 0);
    EXPECT_EQ(run.capture().stages[int(Stage::k)].elements_dropped, 12 * 3 * 13 * 8 - kept);
}

TEST_P(CaptureGpu, CountsRacesThatDiffer) {
    CaptureOptions options = options_of(GetParam(), "stage=m");
    options.mode = SinkMode::checked;
    Capture capture(test::small_problem(), options);
    write_one_element<<<1, 256>>>(capture.sink());
    const CapturedRun run = capture.finish();
    ASSERT_EQ(run.capture().stages[int(Stage::m)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::m)].conflicts[0].elements, 255);
}

TEST_P(CaptureGpu, SavesWhoWroteEachElement) {
    CaptureOptions options = options_of(GetParam(), "stage=s,m");
    options.mode = SinkMode::writers;
    Capture capture(test::small_problem(), options);
    if (GetParam() == SinkMemory::file) {
        EXPECT_THROW(capture.sink(), Error);
        return;
    }
    write_by_place<<<1, dim3(8, 4, 2)>>>(capture.sink());
    write_one_element<<<1, 256>>>(capture.sink());
    const std::string path = testing::TempDir() + "writers_gpu_" + std::to_string(int(GetParam())) + ".h5";
    capture.save(path);
    const std::unique_ptr<Recording> run = open_recording(path);

    std::vector<ElementWriter> s(4 * 5);
    ASSERT_TRUE(run->read_writers(Stage::s, {}, s));
    for (int i = 0; i < 4 * 5; ++i) {
        const int row = i / 5, col = i % 5;
        const ElementWriter expected = {std::uint16_t(1 + col % 2), std::uint16_t(32 + 8 * row + col), false};
        EXPECT_EQ(s[std::size_t(i)], expected) << i;
    }
    std::vector<ElementWriter> m(4);
    ASSERT_TRUE(run->read_writers(Stage::m, {}, m));
    EXPECT_EQ(m[0].writes, 256);
    EXPECT_LT(m[0].first_thread, 256);
    EXPECT_TRUE(m[0].several_threads);
    EXPECT_EQ(m[1], ElementWriter());
    ASSERT_EQ(run->capture().stages[int(Stage::m)].conflicts.size(), 1u);
    EXPECT_EQ(run->capture().stages[int(Stage::m)].conflicts[0].elements, 255) << "they are counted, too";
    EXPECT_FALSE(run->read_writers(Stage::s, {0, 0, 0, 1}, s));
}

TEST_P(CaptureGpu, KnowsTheThreadOfEveryElement) {
    CaptureOptions options = options_of(GetParam());
    options.mode = SinkMode::writers;
    if (GetParam() == SinkMemory::file) return;
    Capture capture(test::small_problem(), options);
    launch(capture, all_blocks);
    const CapturedRun run = capture.finish();
    EXPECT_EQ(test::expect_played(run, plan_of(options)), test::all_elements);
    int elements = 0;
    for (const StageInfo& info : stages_of(run.problem())) {
        const TileShape shape = tile_shape(run.problem(), info.stage);
        for (std::int64_t n = 0; n < tile_count(run.problem(), info.stage); ++n) {
            const TileId tile = tile_at(run.problem(), info.stage, n);
            const TileShape extent = tile_extent(run.problem(), info.stage, tile);
            std::vector<ElementWriter> writers(std::size_t(shape.elements()));
            ASSERT_TRUE(run.read_writers(info.stage, tile, writers)) << info.name;
            for (std::int64_t i = 0; i < shape.elements(); ++i) {
                const bool inside = i / shape.cols < extent.rows && i % shape.cols < extent.cols;
                // As play() shares them out: no tile has more elements than the block has threads.
                const bool by_warp = info.stage == Stage::m || info.stage == Stage::l;
                const auto thread = std::uint16_t(by_warp ? 16 * i + 3 : i);
                const ElementWriter expected = inside ? ElementWriter{1, thread, false} : ElementWriter();
                ASSERT_EQ(writers[std::size_t(i)], expected) << info.name << " " << n << " " << i;
                elements += inside;
            }
        }
    }
    EXPECT_EQ(elements, test::all_elements);
}

TEST_P(CaptureGpu, WidensNarrowTypesExactly) {
    std::vector<std::uint16_t> halves;
    std::vector<std::uint16_t> bfloats;
    for (std::uint32_t i = 0; i < 20; ++i) {
        halves.push_back(std::uint16_t(i * 3277));
        bfloats.push_back(std::uint16_t(i * 3300));
    }
    halves[0] = bfloats[0] = 0x7fff;  // NaN
    const DeviceArray<std::uint16_t> p(halves);
    const DeviceArray<std::uint16_t> s(bfloats);
    Capture capture(test::small_problem(), options_of(GetParam(), "stage=p,s"));
    write_types<<<1, 32>>>(reinterpret_cast<const __half*>(p.data),
                           reinterpret_cast<const __nv_bfloat16*>(s.data) TILESCOPE_SINK_ARG(capture.sink()));
    const CapturedRun run = capture.finish();
    std::vector<float> values(20);
    ASSERT_TRUE(run.read_tile(Stage::p, TileId(), values));
    EXPECT_TRUE(std::isnan(values[0]));
    for (std::size_t i = 1; i < 20; ++i) EXPECT_EQ(values[i], decode(Dtype::f16, halves[i])) << i;
    ASSERT_TRUE(run.read_tile(Stage::s, TileId(), values));
    EXPECT_TRUE(std::isnan(values[0]));
    for (std::size_t i = 1; i < 20; ++i) EXPECT_EQ(values[i], decode(Dtype::bf16, bfloats[i])) << i;
}

TEST_P(CaptureGpu, SavesInputsOutputsAndProvenance) {
    const std::vector<std::uint16_t> q(2 * 6 * 10 * 8, 0x3c00);
    const std::vector<std::uint16_t> k(2 * 3 * 13 * 8, 0x4000);
    const std::vector<std::uint16_t> v(2 * 3 * 13 * 7, 0x4200);
    const std::vector<std::uint16_t> o(2 * 6 * 10 * 7, 0x4400);
    const std::vector<float> lse(2 * 6 * 10, 5.0f);
    const DeviceArray<std::uint16_t> device_q(q), device_k(k), device_v(v), device_o(o);
    const DeviceArray<float> device_lse(lse);

    Capture capture(test::small_problem(), options_of(GetParam(), "stage=m,o,lse"));
    capture.inputs(device_q.data, device_k.data, device_v.data);
    capture.outputs(device_o.data, device_lse.data);
    const std::string path = testing::TempDir() + "capture_gpu_" + std::to_string(int(GetParam())) + ".h5";
    capture.save(path);
    const std::unique_ptr<Recording> run = open_recording(path);

    ASSERT_TRUE(run->has_inputs());
    std::vector<float> row(7);
    run->read_input(Input::v, 1, 2, 12, 1, row);
    EXPECT_EQ(row, std::vector<float>(7, 3.0f));
    std::vector<float> tile(4 * 7);
    ASSERT_TRUE(run->read_tile(Stage::o, {1, 5, 0, 0}, tile));
    EXPECT_EQ(tile, std::vector<float>(28, 4.0f));
    tile.resize(4);
    ASSERT_TRUE(run->read_tile(Stage::lse, {1, 5, 0, 0}, tile));
    EXPECT_EQ(tile, std::vector<float>(4, 5.0f));

    const Provenance& provenance = run->provenance();
    EXPECT_EQ(provenance.kernel, "play");
    EXPECT_FALSE(provenance.device.empty());
    EXPECT_NE(provenance.compute_capability.find('.'), std::string::npos);
    EXPECT_NE(provenance.cuda_version.find('.'), std::string::npos);
    EXPECT_EQ(provenance.time.size(), std::string("2000-01-01T00:00:00Z").size());
    std::filesystem::remove(path);
}

/// q, k and v next to each other in each row of [batch][seqlen][3][heads][head_dim], and o of [batch][seqlen][heads].
TEST_P(CaptureGpu, TakesArraysAsTheyLie) {
    Problem problem = test::small_problem();
    problem.heads_kv = problem.heads;
    problem.seqlen_kv = problem.seqlen_q;
    problem.head_dim_v = problem.head_dim;
    const std::int64_t width = problem.head_dim;
    const std::int64_t row = 3 * problem.heads * width;
    std::vector<float> packed(std::size_t(problem.batch * problem.seqlen_q * row));
    for (std::size_t i = 0; i < packed.size(); ++i) packed[i] = float(i);
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = Dtype::f32;
    const DeviceArray<float> device(packed);
    const auto part = [&](int number) {
        return StridedArray(device.data + number * problem.heads * width, problem.seqlen_q * row, width, row);
    };
    Capture capture(problem, options_of(GetParam(), "stage=m,o"));
    capture.inputs(part(0), part(1), part(2));
    capture.outputs(part(1), nullptr);
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, "completed");
    std::vector<float> read(static_cast<std::size_t>(width));
    const auto at = [&](int number, std::int64_t batch, std::int64_t head, std::int64_t query) {
        return float((batch * problem.seqlen_q + query) * row + (number * problem.heads + head) * width);
    };
    for (const auto& [input, number] :
         {std::pair(Input::q, 0), std::pair(Input::k, 1), std::pair(Input::v, 2)}) {
        run.read_input(input, 1, 2, 3, 1, read);
        EXPECT_EQ(read.front(), at(number, 1, 2, 3));
        EXPECT_EQ(read.back(), at(number, 1, 2, 3) + float(width - 1));
    }
    std::vector<float> tile(std::size_t(tile_shape(problem, Stage::o).elements()));
    ASSERT_TRUE(run.read_tile(Stage::o, {1, 2, 1, 0}, tile));
    EXPECT_EQ(tile.front(), at(1, 1, 2, problem.block_m));
}

/// k of uint8 codes in every second row, v of int8 ones without gaps.
TEST_P(CaptureGpu, TakesCodesOfOneByte) {
    Problem problem = test::small_problem();
    problem.dtype_q = problem.dtype_k = problem.dtype_v = problem.dtype_o = Dtype::f32;
    problem.head_dim_v = problem.head_dim;
    const std::int64_t row = 2 * problem.head_dim;
    const std::int64_t rows = problem.batch * problem.heads_kv * problem.seqlen_kv;
    std::vector<std::uint8_t> bytes(std::size_t(rows * row));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::uint8_t(i * 37);
    const DeviceArray<std::uint8_t> device(bytes);
    const std::vector<float> q(
        std::size_t(problem.batch * problem.heads * problem.seqlen_q * problem.head_dim), 1.0f);
    const StridedArray k(device.data, problem.heads_kv * problem.seqlen_kv * row, problem.seqlen_kv * row,
                         row);

    Capture capture(problem, options_of(GetParam(), "stage=m,o"));
    const StridedArray v =
        StridedArray(device.data).codes([](int code) { return float(code) * 2.0f - 448.0f; }, true);
    capture.inputs(q.data(), k.codes(0.5f, 128), v);
    EXPECT_THROW(capture.outputs(StridedArray(device.data).codes(1.0f, 0), nullptr), Error);
    const std::vector<float> o(
        std::size_t(problem.batch * problem.heads * problem.seqlen_q * problem.head_dim_v));
    capture.outputs(o.data(), nullptr);
    const CapturedRun run = capture.finish();
    std::vector<float> read(static_cast<std::size_t>(problem.head_dim));
    const std::int64_t key = (1 * problem.heads_kv + 1) * problem.seqlen_kv + 3;
    run.read_input(Input::k, 1, 1, 3, 1, read);
    EXPECT_EQ(read.back(), (float(std::uint8_t((key * row + problem.head_dim - 1) * 37)) - 128.0f) * 0.5f);
    run.read_input(Input::v, 1, 1, 3, 1, read);
    EXPECT_EQ(read.back(),
              float(std::int8_t(std::uint8_t(((key + 1) * problem.head_dim - 1) * 37))) * 2.0f - 448.0f);
}

TEST_P(CaptureGpu, RecordsABackwardPass) {
    const CaptureOptions options = options_of(GetParam(), "stage=ds,dk,dv");
    Capture capture(test::small_backward_problem(), options);
    play_backward<<<dim3(3, 3, 2), 64>>>(capture.sink());
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, "completed");
    const CapturePlan plan(test::small_backward_problem(), *options.selection, options.max_bytes);
    EXPECT_EQ(test::expect_played(run, plan), 12 * 10 * 13 + 6 * 13 * (8 + 7));
}

TEST_P(CaptureGpu, SavesInputsAndGradientsOfABackwardPass) {
    const std::vector<std::uint16_t> rows(2 * 6 * 10 * 8, 0x3c00);  // 1: q, dout, o, dq
    const std::vector<std::uint16_t> keys(2 * 3 * 13 * 8, 0x4000);  // 2: k, v, dk, dv
    const std::vector<float> lse(2 * 6 * 10, 5.0f);
    const DeviceArray<std::uint16_t> device_rows(rows), device_keys(keys);
    const DeviceArray<float> device_lse(lse);
    const auto capture_run = [&](const void* o) {
        Capture capture(test::small_backward_problem(), options_of(GetParam(), "stage=dq,dk,dv"));
        capture.inputs(device_rows.data, device_keys.data, device_keys.data);
        capture.backward_inputs(device_rows.data, o, device_lse.data);
        capture.gradients(device_rows.data, device_keys.data, nullptr);
        return capture.finish();
    };
    const CapturedRun run = capture_run(device_rows.data);
    EXPECT_EQ(run.capture().ended, "completed");
    EXPECT_TRUE(run.has_inputs() && run.has_input(Input::o));
    std::vector<float> row(7);
    run.read_input(Input::dout, 1, 5, 9, 1, row);
    EXPECT_EQ(row, std::vector<float>(7, 1.0f));
    run.read_input(Input::lse, 1, 5, 9, 1, std::span(row).first(1));
    EXPECT_EQ(row[0], 5.0f);
    std::vector<float> tile(5 * 8);
    ASSERT_TRUE(run.read_tile(Stage::dk, {1, 2, 0, 1}, tile));
    EXPECT_EQ(tile, std::vector<float>(40, 2.0f));
    EXPECT_TRUE(run.has_tile(Stage::dq, {1, 5, 2, 0}));
    EXPECT_FALSE(run.has_stage(Stage::dv));

    const CapturedRun without_o = capture_run(nullptr);
    EXPECT_TRUE(without_o.has_inputs() && !without_o.has_input(Input::o));

    Capture incomplete(test::small_backward_problem(), options_of(GetParam()));
    incomplete.inputs(device_rows.data, device_keys.data, device_keys.data);
    EXPECT_THROW(incomplete.finish(), Error) << "dout and lse are missing";
}

TEST_P(CaptureGpu, RestartsBetweenReplaysOfAGraph) {
    const CaptureOptions options = options_of(GetParam(), "stage=m");
    Capture capture(test::small_problem(), options);
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t replay;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    const Sink sink = capture.sink();
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    capture.restart(stream);
    play<<<all_blocks, 64, 0, stream>>>(Ending::returns, nullptr TILESCOPE_SINK_ARG(sink));
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&replay, graph, 0), cudaSuccess);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(cudaGraphLaunch(replay, stream), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(test::expect_played(capture.finish(), plan_of(options)), 2 * 6 * 3 * 10);

    // What an earlier launch wrote is gone.
    Capture twice(test::small_problem(), options);
    launch(twice, all_blocks);
    twice.restart(stream);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    launch(twice, dim3(1));
    const CapturedRun run = twice.finish();
    EXPECT_TRUE(run.has_tile(Stage::m, {0, 0, 0, 0}));
    EXPECT_FALSE(run.has_tile(Stage::m, {0, 0, 1, 0}));
    cudaGraphExecDestroy(replay);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
}

TEST_P(CaptureGpu, EachDeviceHasItsOwn) {
    int devices = 0;
    ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
    std::vector<CaptureOptions> options;
    std::vector<std::unique_ptr<Capture>> captures;
    for (int device = 0; device < devices; ++device) {
        ASSERT_EQ(cudaSetDevice(device), cudaSuccess);
        options.push_back(options_of(GetParam(), ("q_block=" + std::to_string(device % 3)).c_str()));
        options.back().sink_file += std::to_string(device);
        captures.push_back(std::make_unique<Capture>(test::small_problem(), options.back()));
        launch(*captures.back(), all_blocks);
    }
    // Finished from another device than they were launched on.
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    for (std::size_t device = 0; device < captures.size(); ++device) {
        const CapturedRun run = captures[device]->finish();
        EXPECT_EQ(run.capture().ended, "completed");
        EXPECT_GT(test::expect_played(run, plan_of(options[device])), 0);
        int current = -1;
        EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
        EXPECT_EQ(current, 0);
        std::filesystem::remove(options[device].sink_file);
    }
    std::printf("%d devices\n", devices);
}

__global__ void write_keys(const float* tile TILESCOPE_SINK_PARAM(sink)) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    TILESCOPE_TILE(p, 0, tile, 8, threadIdx.x, blockDim.x);
}

TEST_P(CaptureGpu, TilesBeginAnywhere) {
    // The one row statistic before P leaves it 4 bytes behind a multiple of 16.
    Problem problem;
    problem.seqlen_q = problem.block_m = 1;
    problem.seqlen_kv = problem.block_n = 8;
    const std::vector<float> tile = {1, 2, 3, 4, 5, 6, 7, 8};
    const DeviceArray<float> on_device(tile);
    Capture capture(problem, options_of(GetParam(), "stage=m,p"));
    write_keys<<<1, 32>>>(on_device.data TILESCOPE_SINK_ARG(capture.sink()));
    const CapturedRun run = capture.finish();
    EXPECT_EQ(run.capture().ended, "completed");
    std::vector<float> p(8);
    ASSERT_TRUE(run.read_tile(Stage::p, TileId(), p));
    EXPECT_EQ(p, tile);
}

/// Each thread's share of a tile in memory, and what every lane holds of a row statistic.
__host__ __device__ void keep_statistics(const Sink& sink, const float* tile, int cols, int thread,
                                         int threads) {
    TILESCOPE_BLOCK(sink, 0, 0, 0);
    TILESCOPE_TILE(s, 0, tile, cols, thread, threads);
    if (thread % 3 == 0) TILESCOPE_VALUE(m, 0, thread % 64, 0, tile[thread]);
}

__global__ void keep_statistics_on_gpu(const float* tile, int cols TILESCOPE_SINK_PARAM(sink)) {
    keep_statistics(sink, tile, cols, int(threadIdx.x), int(blockDim.x));
}

void expect_statistics_of_the_cpu(const std::vector<float>& tile, int cols, int threads) {
    Problem problem;
    problem.seqlen_q = problem.block_m = 64;
    problem.seqlen_kv = problem.block_n = cols;
    const CapturePlan plan(problem, parse_selection("stage=s,m", "test"), 1 << 20, SinkMode::statistics);

    std::vector<std::byte> on_host(plan.bytes());
    plan.fill_unwritten(on_host.data());
    for (int thread = 0; thread < threads; ++thread) {
        keep_statistics(plan.sink(on_host.data()), tile.data(), cols, thread, threads);
    }

    const DeviceArray<std::byte> memory(plan.head());
    const DeviceArray<float> on_device(tile);
    keep_statistics_on_gpu<<<1, threads>>>(on_device.data, cols TILESCOPE_SINK_ARG(plan.sink(memory.data)));
    std::vector<std::byte> from_gpu(plan.bytes());
    ASSERT_EQ(cudaMemcpy(from_gpu.data(), memory.data, plan.bytes(), cudaMemcpyDeviceToHost), cudaSuccess);

    for (const Stage stage : {Stage::s, Stage::m}) {
        const TileStatistics& got = *plan.sink(from_gpu.data()).stages[int(stage)].statistics;
        const TileStatistics& expected = *plan.sink(on_host.data()).stages[int(stage)].statistics;
        EXPECT_EQ(got.written, stage == Stage::s ? unsigned(64 * cols) : unsigned(threads + 2) / 3);
        EXPECT_EQ(got.written, expected.written);
        EXPECT_EQ(got.hash, expected.hash);
        EXPECT_EQ(got.nan, expected.nan);
        EXPECT_EQ(got.infinite, expected.infinite);
        EXPECT_EQ(got.zero, expected.zero);
        EXPECT_EQ(got.least, expected.least);
        EXPECT_EQ(got.greatest, expected.greatest);
        // Both add a thread's part in the same order, with the same roundings.
        EXPECT_EQ(got.sum, expected.sum);
        EXPECT_EQ(got.sum_of_squares, expected.sum_of_squares);
    }
}

TEST(StatisticsGpu, AreThoseOfTheCpu) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "there is no GPU";
    for (const int cols : {7, 24, 32, 64}) {
        for (const int threads : {7, 64, 96}) {
            SCOPED_TRACE(testing::Message() << cols << " columns, " << threads << " threads");
            std::vector<float> tile(std::size_t(64 * cols));
            for (std::size_t i = 0; i < tile.size(); ++i) tile[i] = 3 * std::sin(float(i));
            expect_statistics_of_the_cpu(tile, cols, threads);
            tile[5] = std::nanf("");
            tile[99] = -INFINITY;
            tile[200] = 0.0f;
            tile[300] = -0.0f;
            expect_statistics_of_the_cpu(tile, cols, threads);
        }
    }
}

TILESCOPE_SINK_SYMBOL(symbol);

__global__ void play_through_a_symbol() {
    TILESCOPE_BLOCK(symbol, 0, 0, 0);
    TILESCOPE_VALUE(m, 0, threadIdx.x, 0, float(threadIdx.x));
}

TEST_P(CaptureGpu, TakesTheSinkFromASymbol) {
    play_through_a_symbol<<<1, 4>>>();  // never armed: nothing happens
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    {
        Capture capture(test::small_problem(), options_of(GetParam(), "stage=m"));
        TILESCOPE_ARM(capture, symbol);
        Capture other(test::small_problem(), options_of(SinkMemory::device, "stage=m"));
        EXPECT_THROW(TILESCOPE_ARM(other, symbol), Error) << "armed twice at once";
        play_through_a_symbol<<<1, 4>>>();
        const CapturedRun run = capture.finish();
        std::vector<float> m(4);
        ASSERT_TRUE(run.read_tile(Stage::m, TileId(), m));
        EXPECT_EQ(m, (std::vector<float>{0, 1, 2, 3}));
        TILESCOPE_ARM(other, symbol);  // the first one has let go of it
    }
    play_through_a_symbol<<<1, 4>>>();
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess) << "the sink is gone, and the symbol with it";
}

}  // namespace
}  // namespace tilescope
