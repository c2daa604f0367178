#define DEBUG_DUMP
#include "dump/program_hook.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "dump/program_file.h"
#include "dump/recording/program_rooms.h"
#include "dump/schema/error.h"
#include "tests/support/error_of.h"

namespace tilescope {
namespace {

using test::error_of;

TILESCOPE_PROGRAM(linear, R"(
    # stage none[n] is in a comment
    axes   n: rows by 4; m: cols by 4; k: depth by 8
    input  a[n, k]; stages_of[m, k]
    stage  acc[n, m]  # its state
           over k = acc + sum(k: a * stages_of)
    stage  y[n, m]: f16 = acc where n >= 0 else 0.0
    stage  r[n] = max(m: acc)
    stage  all = sum(n: r)
    output y
)");

// What hooks look up while they are compiled.
constexpr HookedStage stage_of(const char* name) {
    return hooked_stage(linear::text(), name);
}
static_assert(stage_of("acc").number == 0 && stage_of("acc").dims == 3);
static_assert(stage_of("y").number == 1 && stage_of("y").dims == 2);
static_assert(stage_of("r").number == 2 && stage_of("r").dims == 1);
static_assert(stage_of("all").number == 3 && stage_of("all").dims == 0);
static_assert(!stage_of("none").is_declared() && !stage_of("a").is_declared() &&
              !stage_of("ac").is_declared());

constexpr int all_rows = 6, all_cols = 5, all_k = 20, k_blocks = 3;

float a_at(int n, int k) {
    return float((n * 7 + k * 3) % 11 - 5);
}
float w_at(int m, int k) {
    return float((m * 5 + k * 2) % 13 - 6);
}
float linear_state(int block, int n, int m) {
    float sum = 0;
    for (int k = 0; k < std::min(all_k, 8 * (block + 1)); ++k) sum += a_at(n, k) * w_at(m, k);
    return sum;
}

/// A kernel that goes through tiles of 4 x 4, padding and all.
void play_linear(int skipped_block TILESCOPE_PROGRAM_SINK_PARAM(sink)) {
    TILESCOPE_PROGRAM_HOOKS(sink, linear);
    for (int n0 = 0; n0 < all_rows; n0 += 4) {
        float largest[4] = {-1e9f, -1e9f, -1e9f, -1e9f};
        for (int m0 = 0; m0 < all_cols; m0 += 4) {
            for (int block = 0; block < k_blocks; ++block) {
                float tile[16];
                for (int i = 0; i < 16; ++i) tile[i] = linear_state(block, n0 + i / 4, m0 + i % 4);
                if (block == skipped_block) continue;
                TILESCOPE_PROGRAM_TILE(acc, (block, n0, m0), 4, 4, tile, 4, 0, 1);
            }
            for (int i = 0; i < 16; ++i) {
                const float value = linear_state(k_blocks - 1, n0 + i / 4, m0 + i % 4);
                if (m0 + i % 4 < all_cols) largest[i / 4] = std::max(largest[i / 4], value);
                TILESCOPE_PROGRAM_VALUE(y, (n0 + i / 4, m0 + i % 4), value);
            }
        }
        TILESCOPE_PROGRAM_ROWS(r, (n0), largest, [](int i) { return HookPlace{i, 0}; });
    }
    TILESCOPE_PROGRAM_VALUE(all, (), 1.0f);
    TILESCOPE_PROGRAM_VALUE(all, (), 2.0f);
}

/// Buffers of a recorder, as Python and captures have them.
struct LinearRoom {
    explicit LinearRoom(const std::string& selection = "")
        : program(parse_program(linear::text())),
          a(all_rows * all_k),
          w(all_cols * all_k),
          call(bind_program(program,
                            {{"a", view(a, {all_rows, all_k})}, {"stages_of", view(w, {all_cols, all_k})}})),
          stages(recorded_stages(call, selection)) {
        std::vector<std::uint32_t*> addresses;
        for (const RecordedStage& stage : stages) {
            words.emplace_back(std::size_t(stage.elements()), unwritten_bits);
            addresses.push_back(words.back().data());
        }
        rooms = program_rooms(call, stages, addresses);
        sink = program_sink(stages, rooms.data());
    }
    static ProgramInput view(const std::vector<float>& numbers, std::vector<std::int64_t> shape) {
        return {Dtype::f32, std::move(shape), std::as_bytes(std::span(numbers))};
    }
    float at(std::size_t stage, std::size_t i) const { return std::bit_cast<float>(words[stage][i]); }

    Program program;
    std::vector<float> a, w;
    ProgramCall call;
    std::vector<RecordedStage> stages;
    std::vector<std::vector<std::uint32_t>> words;
    std::vector<ProgramRoom> rooms;
    ProgramSink sink;
};

TEST(ProgramHook, RecordsEachStageAlongItsAxes) {
    LinearRoom room;
    play_linear(-1 TILESCOPE_PROGRAM_SINK_ARG(room.sink));
    ASSERT_EQ(room.stages.size(), 4U);
    for (int block = 0; block < k_blocks; ++block)
        for (int i = 0; i < all_rows * all_cols; ++i)
            ASSERT_EQ(room.at(0, std::size_t(block * all_rows * all_cols + i)),
                      linear_state(block, i / all_cols, i % all_cols))
                << i;
    for (int i = 0; i < all_rows * all_cols; ++i)
        ASSERT_EQ(room.at(1, std::size_t(i)), linear_state(2, i / all_cols, i % all_cols)) << i;
    for (int n = 0; n < all_rows; ++n) {
        float largest = linear_state(2, n, 0);
        for (int m = 1; m < all_cols; ++m) largest = std::max(largest, linear_state(2, n, m));
        EXPECT_EQ(room.at(2, std::size_t(n)), largest) << n;
    }
    EXPECT_EQ(room.rooms[0].conflicts, 0U);
    EXPECT_EQ(room.rooms[3].conflicts, 1U) << "2 after 1";
    EXPECT_NO_THROW(require_inside(room.call, room.rooms)) << "padding of the last tiles is no element";
}

TEST(ProgramHook, KeepsThePartThatIsSelected) {
    LinearRoom room("n=1:k=1-:stage=acc,r");
    play_linear(1 TILESCOPE_PROGRAM_SINK_ARG(room.sink));
    ASSERT_EQ(room.stages.size(), 2U);
    EXPECT_EQ(room.stages[0].first, (std::vector<std::int64_t>{1, 4, 0}));
    EXPECT_EQ(room.stages[0].count, (std::vector<std::int64_t>{2, 2, all_cols}));
    EXPECT_EQ(room.stages[1].first, (std::vector<std::int64_t>{4}));
    for (int i = 0; i < 2 * all_cols; ++i) {
        EXPECT_EQ(room.words[0][std::size_t(i)], unwritten_bits) << "the hook of block 1 was left out";
        EXPECT_EQ(room.at(0, std::size_t(2 * all_cols + i)), linear_state(2, 4 + i / all_cols, i % all_cols));
    }
}

TEST(ProgramHook, SaysWhichLinesRecordedAStage) {
    LinearRoom room("stage=all,y");
    play_linear(-1 TILESCOPE_PROGRAM_SINK_ARG(room.sink));
    const std::vector<SourceLine> of_all = hooks_of(room.rooms[3]);
    ASSERT_EQ(of_all.size(), 2U) << "two lines, each once";
    EXPECT_EQ(of_all[1].line, of_all[0].line + 1);
    EXPECT_TRUE(of_all[0].file.ends_with("dump/program_hook_test.cpp")) << of_all[0].file;
    EXPECT_EQ(hooks_of(room.rooms[1]).size(), 1U);
    EXPECT_TRUE(hooks_of(room.rooms[0]).empty()) << "it is not selected";
}

TEST(ProgramHook, WritesNothingWhereNothingIsSelected) {
    const ProgramSink sink;
    play_linear(-1 TILESCOPE_PROGRAM_SINK_ARG(sink));
    EXPECT_EQ(program_sink_from(nullptr, 0).stages, 0U);
    EXPECT_THROW(program_sink_from(&sink, 3), std::invalid_argument);
}

TEST(ProgramHook, CountsWhatNoBlockHas) {
    LinearRoom room;
    {
        TILESCOPE_PROGRAM_HOOKS(room.sink, linear);
        TILESCOPE_PROGRAM_VALUE(y, (8, 2), 1.0f);  // rows end at 6, and their last block at 8
        TILESCOPE_PROGRAM_VALUE(y, (-1, 2), 1.0f);
    }
    const std::string error = error_of([&] { require_inside(room.call, room.rooms); });
    EXPECT_NE(error.find("y: hooks gave 2 elements"), std::string::npos) << error;
    EXPECT_NE(error.find("[8, 2]"), std::string::npos) << error;
}

TEST(ProgramHook, RefusesSelectionsThatAreNone) {
    const std::map<std::string, std::string> refused = {
        {"head=1", "no axis"},        {"n=2", "goes from 0 to 1"}, {"n=1-0", "goes from 0 to 1"},
        {"n=x", "is no number"},      {"n=0:n=1", "given twice"},  {"n", "has no '='"},
        {"stage=b", "no such stage"}, {"stage=a", "no such stage"}};
    for (const auto& [text, words] : refused) {
        const std::string error = error_of([&] { LinearRoom{text}; });
        EXPECT_NE(error.find(words), std::string::npos) << text << ": " << error;
    }
}

TEST(ProgramHook, PartsOfStagesStandInTheFile) {
    LinearRoom room("n=1:k=1-:stage=acc");
    play_linear(-1 TILESCOPE_PROGRAM_SINK_ARG(room.sink));
    ProgramRecording recording{.text = linear::text()};
    const auto bytes = [](const auto& numbers) {
        const auto all = std::as_bytes(std::span(numbers));
        return std::vector<std::byte>(all.begin(), all.end());
    };
    recording.inputs["a"] = {Dtype::f32, {all_rows, all_k}, bytes(room.a)};
    recording.inputs["stages_of"] = {Dtype::f32, {all_cols, all_k}, bytes(room.w)};
    recording.stages["acc"] = {Dtype::f32,
                               room.stages[0].count,
                               bytes(room.words[0]),
                               room.stages[0].first,
                               3,
                               {{"csrc/linear.cu", 61}, {"csrc/linear.cu", 88}}};
    const std::string path = testing::TempDir() + "program_part.h5";
    write_program_recording(path, recording);
    EXPECT_EQ(read_program_recording(path).stages.at("acc"), recording.stages.at("acc"));
}

}  // namespace
}  // namespace tilescope
