#include "dump/recording/captured_run.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "dump/schema/error.h"
#include "tests/dump/small_problem.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;

constexpr std::size_t enough_bytes = std::size_t(1) << 30;
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

/// The memory of a capture that no hook has written to yet.
struct Block {
    explicit Block(const char* selection, std::size_t max_bytes = enough_bytes,
                   const Problem& problem = test::small_problem())
        : plan(problem, parse_selection(selection, "test"), max_bytes), memory(plan.bytes()) {
        plan.fill_unwritten(memory.data());
        sink = plan.sink(memory.data());
    }

    std::uint32_t& word(Stage stage, const TileId& tile, std::int64_t row, std::int64_t col) {
        const SinkStage& room = sink.stages[int(stage)];
        const std::int64_t element =
            (plan.tile_slot(stage, tile) * room.row.extent + row) * room.col.extent + col;
        return room.words[element];
    }
    void write(Stage stage, const TileId& tile, std::int64_t row, std::int64_t col, float value) {
        word(stage, tile, row, col) = std::bit_cast<std::uint32_t>(value);
    }
    CapturedRun finish(InputArrays inputs = {}) const {
        return CapturedRun(plan, memory, Units(), Provenance(), std::move(inputs));
    }

    CapturePlan plan;
    std::vector<std::byte> memory;
    Sink sink;
};

std::vector<float> read(const CapturedRun& run, Stage stage, const TileId& tile) {
    std::vector<float> values(std::size_t(tile_shape(run.problem(), stage).elements()), -1.0f);
    EXPECT_TRUE(run.read_tile(stage, tile, values));
    return values;
}

template <class Element>
std::vector<std::byte> bytes_of(const std::vector<Element>& elements) {
    std::vector<std::byte> bytes(elements.size() * sizeof(Element));
    std::memcpy(bytes.data(), elements.data(), bytes.size());
    return bytes;
}

TEST(CapturedRun, NothingWrittenIsNothingRecorded) {
    const CapturedRun run = Block("").finish();
    for (const StageInfo& info : all_stages()) {
        EXPECT_FALSE(run.has_stage(info.stage));
        EXPECT_FALSE(run.has_tile(info.stage, TileId()));
        std::vector<float> out(40, -1.0f);
        EXPECT_FALSE(run.read_tile(info.stage, TileId(), out));
        EXPECT_EQ(out, std::vector<float>(40, -1.0f)) << "left alone";
        const StageCapture& capture = run.capture().stages[std::size_t(info.stage)];
        EXPECT_TRUE(capture.conflicts.empty() && capture.dropped.empty());
        EXPECT_EQ(capture.elements_dropped, 0);
        EXPECT_EQ(capture.elements_out_of_range, 0);
    }
    EXPECT_EQ(run.capture().ended, "completed");
    EXPECT_FALSE(run.has_inputs());
}

TEST(CapturedRun, OneElementRecordsItsTile) {
    Block block("head=3:stage=s,m");
    const TileId tile = {1, 3, 2, 2};
    block.write(Stage::s, tile, 1, 2, no_number);
    const CapturedRun run = block.finish();
    EXPECT_TRUE(run.has_stage(Stage::s));
    EXPECT_FALSE(run.has_stage(Stage::m));
    EXPECT_TRUE(run.has_tile(Stage::s, tile));
    EXPECT_FALSE(run.has_tile(Stage::s, {1, 3, 2, 1}));
    EXPECT_FALSE(run.has_tile(Stage::s, {1, 2, 2, 2})) << "not selected";
    EXPECT_FALSE(run.has_tile(Stage::s, {1, 3, 3, 2})) << "not in the problem";
    const std::vector<float> values = read(run, Stage::s, tile);
    ASSERT_EQ(values.size(), 20u);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i == 1 * 5 + 2) {
            EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(no_number));
        } else {
            EXPECT_TRUE(is_unwritten(values[i])) << i;
        }
    }
}

TEST(CapturedRun, PaddingAloneRecordsNothing) {
    Block block("");
    const TileId last = {1, 5, 2, 2};
    block.write(Stage::s, last, 2, 0, 1.0f);  // rows 2 and 3 lie beyond seqlen_q
    block.write(Stage::s, last, 0, 3, 1.0f);  // columns 3 and 4 lie beyond seqlen_kv
    EXPECT_FALSE(block.finish().has_stage(Stage::s));
}

TEST(CapturedRun, StagesWithoutKvTileIgnoreIt) {
    Block block("");
    block.write(Stage::lse, {0, 1, 1, 0}, 3, 0, 2.5f);
    const CapturedRun run = block.finish();
    EXPECT_TRUE(run.has_tile(Stage::lse, {0, 1, 1, 7}));
    EXPECT_EQ(read(run, Stage::lse, {0, 1, 1, 7})[3], 2.5f);
}

TEST(CapturedRun, CountersAreSummarised) {
    Block block("head=0,1:stage=k,s", 256 + sizeof(SinkCounters) + 39 * 4 + 36 * 41 * 4 + 2 * 21 * 4);
    ASSERT_EQ(block.plan.capacity(Stage::k), 36);
    ASSERT_EQ(block.plan.capacity(Stage::s), 2);
    block.sink.counters->dropped[int(Stage::s)].elements = 77;
    block.sink.counters->out_of_range[int(Stage::k)].elements = 5;
    block.sink.stages[int(Stage::k)].conflicts[0] = 1;
    block.sink.stages[int(Stage::k)].conflicts[35] = 9;
    const CapturedRun run = block.finish();
    EXPECT_EQ(to_string(run.capture().selection.value()), "head=0,1:stage=k,s");

    const StageCapture& k = run.capture().stages[int(Stage::k)];
    EXPECT_EQ(k.elements_out_of_range, 5);
    EXPECT_EQ(k.elements_dropped, 0);
    EXPECT_TRUE(k.dropped.empty());
    ASSERT_EQ(k.conflicts.size(), 2u);
    EXPECT_EQ(k.conflicts[0].tile, (TileId{0, 0, 0, 0}));
    EXPECT_EQ(k.conflicts[0].elements, 1);
    EXPECT_EQ(k.conflicts[1].tile, (TileId{1, 1, 2, 2}));
    EXPECT_EQ(k.conflicts[1].elements, 9);

    const StageCapture& s = run.capture().stages[int(Stage::s)];
    EXPECT_EQ(s.elements_dropped, 77);
    ASSERT_EQ(s.dropped.size(), 34u) << "36 are selected, 2 have room";
    EXPECT_EQ(s.dropped.front(), (TileId{0, 0, 0, 2}));
    EXPECT_EQ(s.dropped.back(), (TileId{1, 1, 2, 2}));
    EXPECT_FALSE(run.has_tile(Stage::s, {0, 0, 0, 2}));
}

TEST(CapturedRun, TilesWithoutRoomThatNobodyWroteAreNotDropped) {
    const CapturedRun run = Block("stage=s", sizeof(SinkCounters) + 728).finish();
    EXPECT_TRUE(run.capture().stages[int(Stage::s)].dropped.empty());
}

TEST(CapturedRun, ListOfDroppedTilesIsBounded) {
    Problem problem = test::small_problem();
    problem.seqlen_q = problem.seqlen_kv = 4096;
    Block block("stage=s", 80000, problem);
    block.sink.counters->dropped[int(Stage::s)].elements = 1;
    const CapturedRun run = block.finish();
    EXPECT_EQ(std::ssize(run.capture().stages[int(Stage::s)].dropped), max_listed_dropped);
}

TEST(CapturedRun, MemoryOfAnotherSizeIsRefused) {
    const Block block("");
    std::vector<std::byte> memory = block.memory;
    memory.pop_back();
    const std::string message = error_of([&] { CapturedRun(block.plan, memory, {}, {}, {}); });
    EXPECT_NE(message.find("the sink's memory has"), std::string::npos) << message;
}

TEST(CapturedRun, MovesWhole) {
    Block block("");
    block.write(Stage::m, {0, 0, 1, 1}, 2, 0, 4.0f);
    CapturedRun first = block.finish();
    const CapturedRun second = std::move(first);
    EXPECT_EQ(read(second, Stage::m, {0, 0, 1, 1})[2], 4.0f);
}

class CapturedRunInputs : public testing::Test {
 protected:
    /// Element i of each array is i mod 1000, in float16: exact.
    static std::vector<std::byte> ramp(std::size_t count) {
        std::vector<std::uint16_t> codes(count);
        for (std::size_t i = 0; i < count; ++i)
            codes[i] = std::uint16_t(encode(Dtype::f16, double(i % 1000)));
        return bytes_of(codes);
    }
    static InputArrays arrays() { return {ramp(2 * 6 * 10 * 8), ramp(2 * 3 * 13 * 8), ramp(2 * 3 * 13 * 7)}; }
};

TEST_F(CapturedRunInputs, RowsAreRead) {
    const CapturedRun run = Block("").finish(arrays());
    EXPECT_TRUE(run.has_inputs());
    const auto expect_rows = [&run](Input input, std::int64_t batch, std::int64_t head, std::int64_t row,
                                    std::int64_t cols, std::int64_t first) {
        std::vector<float> rows(std::size_t(2 * cols));
        run.read_input(input, batch, head, row, 2, rows);
        for (std::int64_t i = 0; i < 2 * cols; ++i) {
            EXPECT_EQ(rows[std::size_t(i)], float((first + i) % 1000)) << int(input) << " " << i;
        }
    };
    expect_rows(Input::q, 1, 4, 8, 8, ((1 * 6 + 4) * 10 + 8) * 8);
    expect_rows(Input::k, 1, 2, 11, 8, ((1 * 3 + 2) * 13 + 11) * 8);
    expect_rows(Input::v, 0, 1, 5, 7, (1 * 13 + 5) * 7);
}

TEST_F(CapturedRunInputs, AnotherSizeIsRefused) {
    const Block block("");
    InputArrays inputs = arrays();
    inputs.k.pop_back();
    EXPECT_NE(error_of([&] { block.finish(inputs); })
                  .find("captured run: input k has 1247 bytes where the "
                        "problem needs 1248; pass it contiguous"),
              std::string::npos);
    inputs = arrays();
    inputs.v.clear();
    EXPECT_NE(error_of([&] { block.finish(inputs); }).find("input v has 0 bytes"), std::string::npos);
}

TEST(CapturedRun, SideInputsAreKept) {
    CapturedRun run = Block("").finish();
    EXPECT_EQ(run.side_inputs(), SideInputs());
    SideInputs inputs;
    inputs.seqlens_q = {10, 3};
    inputs.sink = {1, 2, 3, 4, 5, 6};
    run.set_side_inputs(inputs);
    EXPECT_EQ(run.side_inputs(), inputs);
    SideInputs wrong;
    wrong.seqlens_kv = {14, 0};
    EXPECT_NE(error_of([&] {
                  run.set_side_inputs(wrong);
              }).find("captured run: seqlens_kv holds 14, not between 0 and 13"),
              std::string::npos);
    EXPECT_EQ(run.side_inputs(), inputs) << "what was refused is not taken";
}

TEST(CapturedRun, ABiasIsKept) {
    CapturedRun run = Block("").finish();
    EXPECT_FALSE(run.has_bias());
    Bias bias = {1, 6, 1, 13, {}};
    for (int i = 0; i < 6 * 13; ++i) bias.values.push_back(float(i));
    run.set_bias(bias);
    EXPECT_TRUE(run.has_bias());
    std::vector<float> keys(3);
    run.read_bias(1, 4, 9, 10, keys);
    EXPECT_EQ(keys, (std::vector<float>{62, 63, 64})) << "the same for all batches and rows";
    bias.values.pop_back();
    EXPECT_NE(error_of([&] { run.set_bias(bias); }).find("bias has 77 entries, not 78"), std::string::npos);
}

class CapturedRunMerge : public testing::Test {
 protected:
    static constexpr std::size_t o_elements = 2 * 6 * 10 * 7;
    static constexpr std::size_t lse_elements = 2 * 6 * 10;
    static std::size_t o_index(const TileId& tile, std::int64_t row, std::int64_t col) {
        return std::size_t(((tile.batch * 6 + tile.head) * 10 + tile.q_block * 4 + row) * 7 + col);
    }
    /// The element's own index, small enough to be exact in float16.
    static std::vector<std::uint16_t> o_buffer() {
        std::vector<std::uint16_t> codes(o_elements);
        for (std::size_t i = 0; i < o_elements; ++i) codes[i] = std::uint16_t(encode(Dtype::f16, double(i)));
        return codes;
    }
    static std::int64_t conflicts_of(const CapturedRun& run, Stage stage) {
        std::int64_t sum = 0;
        for (const auto& conflict : run.capture().stages[std::size_t(stage)].conflicts) {
            sum += conflict.elements;
        }
        return sum;
    }
};

TEST_F(CapturedRunMerge, BufferFillsWhatHooksLeft) {
    CapturedRun run = Block("").finish();
    run.merge_output(Stage::o, Dtype::f16, bytes_of(o_buffer()));
    std::int64_t compared = 0;
    for (std::int64_t index = 0; index < tile_count(run.problem(), Stage::o); ++index) {
        const TileId tile = tile_at(run.problem(), Stage::o, index);
        const std::vector<float> values = read(run, Stage::o, tile);
        for (std::int64_t row = 0; row < 4; ++row) {
            for (std::int64_t col = 0; col < 7; ++col) {
                const float value = values[std::size_t(row * 7 + col)];
                if (tile.q_block * 4 + row < 10) {
                    EXPECT_EQ(value, float(o_index(tile, row, col)));
                    ++compared;
                } else {
                    EXPECT_TRUE(is_unwritten(value)) << "padding";
                }
            }
        }
    }
    EXPECT_EQ(compared, std::int64_t(o_elements));
    EXPECT_EQ(conflicts_of(run, Stage::o), 0);
}

TEST_F(CapturedRunMerge, DisagreementCountsAndTheBufferStays) {
    Block block("");
    const TileId tile = {1, 2, 1, 0};
    block.write(Stage::o, tile, 0, 0, float(o_index(tile, 0, 0)));
    block.write(Stage::o, tile, 0, 1, float(o_index(tile, 0, 1)) + 1.0f);
    block.write(Stage::o, tile, 3, 6, no_number);
    CapturedRun run = block.finish();
    run.merge_output(Stage::o, Dtype::f16, bytes_of(o_buffer()));
    EXPECT_EQ(conflicts_of(run, Stage::o), 2);
    ASSERT_EQ(run.capture().stages[int(Stage::o)].conflicts.size(), 1u);
    EXPECT_EQ(run.capture().stages[int(Stage::o)].conflicts[0].tile, tile);
    const std::vector<float> values = read(run, Stage::o, tile);
    EXPECT_EQ(values[1], float(o_index(tile, 0, 1)));
    EXPECT_EQ(values[27], float(o_index(tile, 3, 6)));
}

TEST_F(CapturedRunMerge, ComparesBitsButNotNanPayloads) {
    Block block("");
    std::vector<float> lse(lse_elements, 1.0f);
    block.write(Stage::lse, TileId(), 0, 0, 0.0f);
    lse[0] = -0.0f;
    block.write(Stage::lse, TileId(), 1, 0, std::bit_cast<float>(0x7fffffffu));
    lse[1] = std::bit_cast<float>(0xffc00001u);
    block.write(Stage::lse, TileId(), 2, 0, INFINITY);
    lse[2] = INFINITY;
    CapturedRun run = block.finish();
    run.merge_output(Stage::lse, Dtype::f32, bytes_of(lse));
    EXPECT_EQ(conflicts_of(run, Stage::lse), 1) << "the zeros differ";
    const std::vector<float> values = read(run, Stage::lse, TileId());
    EXPECT_TRUE(std::signbit(values[0]));
    EXPECT_TRUE(std::isnan(values[1]) && !is_unwritten(values[1]));
    EXPECT_EQ(values[3], 1.0f);
}

TEST_F(CapturedRunMerge, FilledElementsCountAsUnwritten) {
    Block block("");
    const TileId tile = {0, 0, 0, 0};
    block.write(Stage::o, tile, 0, 1, 3.0f);
    std::vector<std::uint16_t> codes = o_buffer();
    codes[0] = codes[1] = 0xffff;
    CapturedRun run = block.finish();
    run.merge_output(Stage::o, Dtype::f16, bytes_of(codes));
    const std::vector<float> values = read(run, Stage::o, tile);
    EXPECT_TRUE(is_unwritten(values[0])) << "neither wrote it";
    EXPECT_TRUE(is_unwritten(values[1])) << "only a hook claims it";
    EXPECT_EQ(values[2], 2.0f);
    EXPECT_EQ(conflicts_of(run, Stage::o), 1);

    CapturedRun untouched = Block("").finish();
    untouched.merge_output(Stage::lse, Dtype::f32, bytes_of(std::vector<std::uint32_t>(lse_elements, ~0u)));
    EXPECT_FALSE(untouched.has_stage(Stage::lse));
}

TEST_F(CapturedRunMerge, Fp8NanIsAValue) {
    CapturedRun run = Block("").finish();
    run.merge_output(Stage::o, Dtype::e4m3, std::vector<std::byte>(o_elements, std::byte(0xff)));
    const std::vector<float> values = read(run, Stage::o, TileId());
    EXPECT_TRUE(std::isnan(values[0]) && !is_unwritten(values[0]));
}

TEST_F(CapturedRunMerge, OnlySelectedTilesAreMerged) {
    CapturedRun run = Block("head=2:q_block=0:stage=o,s").finish();
    run.merge_output(Stage::o, Dtype::f16, bytes_of(o_buffer()));
    run.merge_output(Stage::lse, Dtype::f32, bytes_of(std::vector<float>(lse_elements, 1.0f)));
    EXPECT_TRUE(run.has_tile(Stage::o, {1, 2, 0, 0}));
    EXPECT_FALSE(run.has_tile(Stage::o, {1, 2, 1, 0}));
    EXPECT_FALSE(run.has_tile(Stage::o, {1, 1, 0, 0}));
    EXPECT_FALSE(run.has_stage(Stage::lse));
}

TEST_F(CapturedRunMerge, TilesWithoutRoomAreDropped) {
    // Room for 35 of the 36 tiles of o; the last one has 2 rows of 7 inside the tensor.
    Block block("stage=o", 256 + sizeof(SinkCounters) + 39 * 4 + 35 * 29 * 4);
    ASSERT_EQ(block.plan.capacity(Stage::o), 35);
    block.sink.counters->dropped[int(Stage::o)].elements = 3;
    CapturedRun run = block.finish();
    run.merge_output(Stage::o, Dtype::f16, bytes_of(o_buffer()));
    const StageCapture& capture = run.capture().stages[int(Stage::o)];
    EXPECT_EQ(capture.elements_dropped, 14) << "those that the hooks dropped are among them";
    ASSERT_EQ(capture.dropped.size(), 1u);
    EXPECT_EQ(capture.dropped[0], (TileId{1, 5, 2, 0}));
}

TEST_F(CapturedRunMerge, WrongStageOrSizeIsRefused) {
    CapturedRun run = Block("").finish();
    const std::vector<std::byte> bits(100);
    EXPECT_EQ(error_of([&] { run.merge_output(Stage::acc, Dtype::f32, bits); }),
              "captured run: stage acc is not an output; merge o or lse");
    EXPECT_EQ(
        error_of([&] { run.merge_output(Stage::o, Dtype::f16, bits); }),
        "captured run: output o has 100 bytes where the problem needs 1680; pass it contiguous, with the "
        "problem's shape and dtype");
    EXPECT_NE(error_of([&] { run.merge_output(Stage::lse, Dtype::f32, bits); }), "accepted");
}

}  // namespace
}  // namespace tilescope
