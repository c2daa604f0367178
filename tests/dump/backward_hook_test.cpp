// The backward pass on the CPU: what hooks write to dk and dv, inputs and gradients as they lie in memory.

#define DEBUG_DUMP
#include "dump/hook.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <thread>
#include <vector>

#include "dump/recording/array_shape.h"
#include "dump/recording/captured_run.h"
#include "dump/schema/error.h"
#include "tests/dump/played_run.h"
#include "tests/dump/small_problem.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;

struct BackwardHost {
    explicit BackwardHost(const char* selection, const Problem& problem = test::small_backward_problem(),
                          std::size_t max_bytes = std::size_t(1) << 30, SinkMode mode = SinkMode::tiles)
        : plan(problem, parse_selection(selection, "test"), max_bytes, mode), memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }
    CapturedRun finish(InputArrays inputs = {}) const {
        return CapturedRun(plan, memory, Units(), Provenance(), std::move(inputs));
    }

    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

std::vector<float> tile_data(Stage stage, const TileId& tile, int rows, int cols) {
    std::vector<float> data;
    for (int i = 0; i < rows * cols; ++i) data.push_back(test::value_of(stage, tile, i / cols, i % cols));
    return data;
}

/// Plays one thread of the thread block of a KV tile: it walks the query blocks of the query heads whose sum
/// is its head of dk and dv.
void play_kv_tile(const Problem& problem, int batch, int dkv_head, int t, int thread,
                  int threads TILESCOPE_HOST_SINK_PARAM(sink)) {
    const auto write = [&](const HookBlock& block, Stage stage, const TileId& tile, int rows, int cols) {
        hook_tile(block, stage, t, tile_data(stage, tile, rows, cols).data(), cols, thread, threads);
    };
    const int group = int(problem.dkv_group());
    for (int head = dkv_head * group; head < (dkv_head + 1) * group; ++head) {
        for (int q_block = 0; q_block < 3; ++q_block) {
            TILESCOPE_BLOCK(sink, batch, head, q_block);
            const TileId rows = {batch, head, q_block, 0};
            const TileId tile = {batch, head, q_block, t};
            write(tilescope_block, Stage::q, rows, 4, 8);
            write(tilescope_block, Stage::dout, rows, 4, 7);
            write(tilescope_block, Stage::dq, rows, 4, 8);
            write(tilescope_block, Stage::k, tile, 5, 8);
            write(tilescope_block, Stage::v, tile, 5, 7);
            for (const Stage stage : {Stage::s, Stage::p, Stage::dp, Stage::ds}) {
                write(tilescope_block, stage, tile, 4, 5);
            }
            for (int row = thread; row < 4; row += threads) {
                TILESCOPE_VALUE(delta, t, row, 0, test::value_of(Stage::delta, rows, row, 0));
            }
        }
    }
    TILESCOPE_BLOCK(sink, batch, dkv_head, 99);
    const TileId keys = {batch, dkv_head, 0, t};
    TILESCOPE_TILE(dk, t, tile_data(Stage::dk, keys, 5, 8).data(), 8, thread, threads);
    TILESCOPE_TILE(dv, t, tile_data(Stage::dv, keys, 5, 7).data(), 7, thread, threads);
}

void play_all(const BackwardHost& host, int thread, int threads) {
    const Problem& problem = host.plan.problem();
    for (int batch = 0; batch < 2; ++batch) {
        for (int head = 0; head < problem.dkv_heads(); ++head) {
            for (int t = 0; t < 3; ++t) {
                play_kv_tile(problem, batch, head, t, thread, threads TILESCOPE_SINK_ARG(host.sink));
            }
        }
    }
}

constexpr std::int64_t elements_of_query_heads =
    12 * (2 * 10 * 8 + 10 * 7 + 10 + 3 * 13 * 8 + 3 * 13 * 7 + 4 * 10 * 13);
constexpr std::int64_t elements_of_a_dkv_head = 13 * 8 + 13 * 7;

Problem per_head_problem() {
    Problem problem = test::small_backward_problem();
    problem.dkv_per_head = true;
    return problem;
}

TEST(BackwardHook, PlacesEveryStage) {
    const BackwardHost summed("");
    play_all(summed, 0, 1);
    EXPECT_EQ(test::expect_played(summed.finish(), summed.plan),
              elements_of_query_heads + 6 * elements_of_a_dkv_head);
    const BackwardHost per_head("", per_head_problem());
    play_all(per_head, 0, 1);
    EXPECT_EQ(test::expect_played(per_head.finish(), per_head.plan),
              elements_of_query_heads + 12 * elements_of_a_dkv_head);
}

TEST(BackwardHook, ThreadsWriteDkAndDvAtOnce) {
    for (const Problem& problem : {test::small_backward_problem(), per_head_problem()}) {
        const BackwardHost host("stage=dk,dv", problem);
        std::vector<std::thread> threads;
        for (int thread = 0; thread < 8; ++thread) {
            threads.emplace_back([&host, thread] { play_all(host, thread, 8); });
        }
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(test::expect_played(host.finish(), host.plan),
                  2 * problem.dkv_heads() * elements_of_a_dkv_head);
    }
}

TEST(BackwardHook, KeepsOnlyDkOfTheSelectedHeads) {
    // Query head 3 is in the second group; q_block does not apply to dk.
    const BackwardHost host("batch=1:head=3:q_block=0:kv_tile=2:stage=dk,dq");
    play_all(host, 0, 1);
    EXPECT_EQ(test::expect_played(host.finish(), host.plan), 3 * 8 + 4 * 8);
    EXPECT_TRUE(host.finish().has_tile(Stage::dk, {1, 1, 0, 2}));
    EXPECT_TRUE(host.finish().has_tile(Stage::dk, {1, 1, 5, 2})) << "the query block means nothing";
    EXPECT_FALSE(host.finish().has_tile(Stage::dk, {1, 0, 0, 2}));
}

TEST(BackwardHook, CountsWhatIsOutOfRangeOrHasNoRoom) {
    const BackwardHost host("stage=dk,dq");
    const auto write_dk = [&host](int batch, int head, int kv_tile) {
        TILESCOPE_BLOCK(host.sink, batch, head, -7);
        TILESCOPE_VALUE(dk, kv_tile, 0, 0, 1.0f);
    };
    write_dk(0, 2, 2);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::dk)].elements, 0u);
    write_dk(0, 3, 0);  // there are three heads of dk, and six query heads
    write_dk(2, 0, 0);
    write_dk(0, -1, 0);
    write_dk(0, 0, 3);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::dk)].elements, 4u);
    TILESCOPE_BLOCK(host.sink, 0, 5, 2);
    TILESCOPE_VALUE(dq, 77, 0, 0, 1.0f);
    EXPECT_EQ(host.sink.counters->out_of_range[int(Stage::dq)].elements, 0u);

    // Tables of 36 query blocks, 3 KV tiles and 6 heads; room for 10 of the 18 tiles of dk.
    const BackwardHost small("stage=dk", test::small_backward_problem(),
                             256 + sizeof(SinkCounters) + 45 * 4 + 10 * 41 * 4);
    ASSERT_EQ(small.plan.capacity(Stage::dk), 10);
    play_all(small, 0, 1);
    const std::int64_t kept = test::expect_played(small.finish(), small.plan);
    const CapturedRun run = small.finish();
    const StageCapture& capture = run.capture().stages[int(Stage::dk)];
    EXPECT_EQ(capture.elements_dropped, 6 * 13 * 8 - kept);
    ASSERT_EQ(capture.dropped.size(), 8u);
    EXPECT_EQ(capture.dropped.front(), (TileId{1, 0, 0, 1}));
    EXPECT_EQ(capture.dropped.back(), (TileId{1, 2, 0, 2}));
}

TEST(BackwardHook, CountsConflictsOfDk) {
    const BackwardHost host("stage=dk", test::small_backward_problem(), std::size_t(1) << 30,
                            SinkMode::checked);
    for (const float value : {1.0f, 2.0f}) {
        TILESCOPE_BLOCK(host.sink, 1, 2, 0);
        TILESCOPE_VALUE(dk, 1, 4, 7, value);
    }
    const CapturedRun run = host.finish();
    const auto& conflicts = run.capture().stages[int(Stage::dk)].conflicts;
    ASSERT_EQ(conflicts.size(), 1u);
    EXPECT_EQ(conflicts[0].tile, (TileId{1, 2, 0, 1}));
    EXPECT_EQ(conflicts[0].elements, 1);
}

TEST(BackwardHook, StagesOfTheForwardPassAreNotKept) {
    const BackwardHost host("");
    TILESCOPE_BLOCK(host.sink, 0, 0, 0);
    TILESCOPE_VALUE(m, 0, 0, 0, 1.0f);
    TILESCOPE_VALUE(acc, 0, 0, 0, 1.0f);
    EXPECT_FALSE(host.finish().has_stage(Stage::m));
    EXPECT_FALSE(host.finish().has_tile(Stage::acc, {}));
}

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
    std::vector<std::byte> bytes(elements.size() * sizeof(Element));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
}

/// Element i of an array is i mod 1000, in float16: exact.
std::vector<std::byte> ramp(std::size_t count) {
    std::vector<std::uint16_t> codes(count);
    for (std::size_t i = 0; i < count; ++i) codes[i] = std::uint16_t(encode(Dtype::f16, double(i % 1000)));
    return bytes_of(codes);
}

InputArrays all_arrays() {
    InputArrays inputs;
    inputs.q = ramp(2 * 6 * 10 * 8);
    inputs.k = ramp(2 * 3 * 13 * 8);
    inputs.v = ramp(2 * 3 * 13 * 7);
    inputs.dout = ramp(2 * 6 * 10 * 7);
    inputs.o = ramp(2 * 6 * 10 * 7);
    std::vector<float> lse(2 * 6 * 10);
    for (std::size_t i = 0; i < lse.size(); ++i) lse[i] = float(i) + 0.5f;
    inputs.lse = bytes_of(lse);
    return inputs;
}

TEST(BackwardInputs, RowsAreRead) {
    const CapturedRun run = BackwardHost("").finish(all_arrays());
    EXPECT_TRUE(run.has_inputs());
    for (const Input input : {Input::dout, Input::o}) {
        EXPECT_TRUE(run.has_input(input));
        std::vector<float> rows(2 * 7);
        run.read_input(input, 1, 4, 8, 2, rows);
        const int first = ((1 * 6 + 4) * 10 + 8) * 7;
        for (int i = 0; i < 14; ++i) EXPECT_EQ(rows[std::size_t(i)], float((first + i) % 1000));
    }
    std::vector<float> lse(3);
    run.read_input(Input::lse, 1, 5, 7, 3, lse);
    EXPECT_EQ(lse, (std::vector<float>{117.5f, 118.5f, 119.5f}));
}

TEST(BackwardInputs, OMayBeMissing) {
    InputArrays inputs = all_arrays();
    inputs.o.clear();
    const CapturedRun run = BackwardHost("").finish(inputs);
    EXPECT_TRUE(run.has_inputs());
    EXPECT_FALSE(run.has_input(Input::o));
    EXPECT_TRUE(run.has_input(Input::lse));
}

TEST(BackwardInputs, SomeOrOfAnotherSizeAreRefused) {
    const std::pair<const char*, std::vector<std::byte> InputArrays::*> arrays[] = {
        {"q", &InputArrays::q},       {"k", &InputArrays::k},     {"v", &InputArrays::v},
        {"dout", &InputArrays::dout}, {"lse", &InputArrays::lse}, {"o", &InputArrays::o}};
    const BackwardHost host("");
    for (const auto& [name, array] : arrays) {
        InputArrays inputs = all_arrays();
        (inputs.*array).pop_back();
        const std::string message = error_of([&] { host.finish(inputs); });
        EXPECT_NE(message.find("captured run: input " + std::string(name) + " has "), std::string::npos)
            << message;
        if (array == &InputArrays::o) continue;
        inputs = all_arrays();
        (inputs.*array).clear();
        EXPECT_NE(error_of([&] {
                      host.finish(inputs);
                  }).find("captured run: input " + std::string(name) + " has 0 bytes"),
                  std::string::npos);
    }
    InputArrays only_o;
    only_o.o = all_arrays().o;
    EXPECT_NE(error_of([&] { host.finish(only_o); }).find("input q has 0 bytes"), std::string::npos);
}

TEST(BackwardInputs, TheForwardPassReadsNone) {
    const BackwardHost host("", test::small_problem());
    for (const auto array : {&InputArrays::dout, &InputArrays::o, &InputArrays::lse}) {
        InputArrays inputs = all_arrays();
        for (const auto other : {&InputArrays::dout, &InputArrays::o, &InputArrays::lse}) {
            if (other != array) (inputs.*other).clear();
        }
        EXPECT_NE(
            error_of([&] { host.finish(inputs); }).find(" is none of the forward pass; declare direction"),
            std::string::npos);
    }
}

/// Merges a ramp and returns how many elements were found at their places.
std::int64_t expect_merged(const BackwardHost& host, Stage stage, std::int64_t heads, std::int64_t seqlen,
                           std::int64_t cols) {
    CapturedRun run = host.finish();
    run.merge_output(stage, Dtype::f16, ramp(std::size_t(2 * heads * seqlen * cols)));
    const std::int64_t block = stage == Stage::dq ? 4 : 5;
    std::int64_t compared = 0;
    for (std::int64_t index = 0; index < tile_count(run.problem(), stage); ++index) {
        const TileId tile = tile_at(run.problem(), stage, index);
        std::vector<float> values(std::size_t(block * cols));
        EXPECT_TRUE(run.read_tile(stage, tile, values));
        const std::int64_t first = (stage == Stage::dq ? tile.q_block : tile.kv_tile) * block;
        for (std::int64_t i = 0; i < block * cols; ++i) {
            const std::int64_t row = first + i / cols;
            const float value = values[std::size_t(i)];
            if (row >= seqlen) {
                EXPECT_TRUE(is_unwritten(value)) << "padding";
                continue;
            }
            const std::int64_t flat = ((tile.batch * heads + tile.head) * seqlen + row) * cols + i % cols;
            EXPECT_EQ(value, float(flat % 1000));
            ++compared;
        }
    }
    EXPECT_TRUE(run.capture().stages[std::size_t(stage)].conflicts.empty());
    return compared;
}

TEST(BackwardMerge, BuffersFillWhatHooksLeft) {
    const BackwardHost summed("");
    EXPECT_EQ(expect_merged(summed, Stage::dq, 6, 10, 8), 2 * 6 * 10 * 8);
    EXPECT_EQ(expect_merged(summed, Stage::dk, 3, 13, 8), 2 * 3 * 13 * 8);
    EXPECT_EQ(expect_merged(summed, Stage::dv, 3, 13, 7), 2 * 3 * 13 * 7);
    const BackwardHost per_head("", per_head_problem());
    EXPECT_EQ(expect_merged(per_head, Stage::dk, 6, 13, 8), 2 * 6 * 13 * 8);
    EXPECT_EQ(expect_merged(per_head, Stage::dv, 6, 13, 7), 2 * 6 * 13 * 7);
}

TEST(BackwardMerge, DisagreementCountsAndTheBufferStays) {
    const BackwardHost host("");
    TILESCOPE_BLOCK(host.sink, 1, 2, 0);
    const float stored = float((((1 * 3 + 2) * 13 + 6) * 7 + 3) % 1000);
    TILESCOPE_VALUE(dv, 1, 1, 3, stored);
    TILESCOPE_VALUE(dv, 1, 1, 4, stored);
    CapturedRun run = host.finish();
    run.merge_output(Stage::dv, Dtype::f16, ramp(2 * 3 * 13 * 7));
    const StageCapture& capture = run.capture().stages[int(Stage::dv)];
    ASSERT_EQ(capture.conflicts.size(), 1u);
    EXPECT_EQ(capture.conflicts[0].tile, (TileId{1, 2, 0, 1}));
    EXPECT_EQ(capture.conflicts[0].elements, 1);
    std::vector<float> values(5 * 7);
    ASSERT_TRUE(run.read_tile(Stage::dv, {1, 2, 0, 1}, values));
    EXPECT_EQ(values[1 * 7 + 4], stored + 1);
}

TEST(BackwardMerge, TilesWithoutRoomAreDropped) {
    // Room for 17 of the 18 tiles of dk; the last one has 3 rows of 8 inside the tensor.
    const BackwardHost host("stage=dk", test::small_backward_problem(),
                            256 + sizeof(SinkCounters) + 45 * 4 + 17 * 41 * 4);
    ASSERT_EQ(host.plan.capacity(Stage::dk), 17);
    CapturedRun run = host.finish();
    run.merge_output(Stage::dk, Dtype::f16, ramp(2 * 3 * 13 * 8));
    const StageCapture& capture = run.capture().stages[int(Stage::dk)];
    EXPECT_EQ(capture.elements_dropped, 24);
    ASSERT_EQ(capture.dropped.size(), 1u);
    EXPECT_EQ(capture.dropped[0], (TileId{1, 2, 0, 2}));
}

TEST(BackwardMerge, OutputsOfTheOtherDirectionAreRefused) {
    CapturedRun backward = BackwardHost("").finish();
    CapturedRun forward = BackwardHost("", test::small_problem()).finish();
    const std::vector<std::byte> bits(100);
    for (const Stage stage : {Stage::o, Stage::lse, Stage::delta}) {
        EXPECT_NE(error_of([&] {
                      backward.merge_output(stage, Dtype::f32, bits);
                  }).find(" is not an output; merge dq, dk or dv"),
                  std::string::npos);
    }
    for (const Stage stage : {Stage::dq, Stage::dk, Stage::dv}) {
        EXPECT_NE(error_of([&] {
                      forward.merge_output(stage, Dtype::f32, bits);
                  }).find(" is not an output; merge o or lse"),
                  std::string::npos);
    }
    EXPECT_EQ(error_of([&] { backward.merge_output(Stage::dk, Dtype::f16, bits); }),
              "captured run: output dk has 100 bytes where the problem needs 1248; pass it contiguous, with "
              "the problem's shape and dtype");
}

}  // namespace
}  // namespace tilescope
